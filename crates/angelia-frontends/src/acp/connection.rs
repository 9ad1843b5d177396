//! The connection to one editor: its capabilities, its open sessions, and the messages to it.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use angelia_core::{engine::Engine, model::SessionId, ports::Profiles, task::TaskGroup};
use angelia_wire::jsonrpc::{PendingRequests, RpcId, VersionField, encode};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    client_requests::PendingEditorRequest, errors::AcpError, options::SessionSettings,
    update::EditorFeatures, usage_update::SessionCost,
};
use crate::stdio::StdioOutput;

/// The settings of the frontend.
#[derive(Clone, Debug)]
pub struct AcpSettings {
    /// The profile of new sessions, or `None` for the default one.
    pub profile: Option<Arc<str>>,
    /// The model of new sessions, instead of the profile's.
    pub model: Option<Arc<str>>,
    pub models: Vec<ExecutorModels>,
    /// The version of Angelia.
    pub version: Arc<str>,
}

/// The models that an executor lists.
#[derive(Clone, Debug)]
pub struct ExecutorModels {
    pub executor: Arc<str>,
    pub models: Vec<Arc<str>>,
}

/// The capabilities of the editor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EditorCapabilities {
    pub(super) features: EditorFeatures,
    /// The editor can show forms (`elicitation.form`).
    pub(super) forms: bool,
}

/// A session that the editor has open.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) cwd: PathBuf,
    pub(super) images: bool,
    pub(super) settings: SessionSettings,
    pub(super) has_title: bool,
    pub(super) cost: SessionCost,
    /// Cancels the running prompt. `None` if no prompt is running.
    pub(super) running_prompt: Option<CancellationToken>,
}

/// The editor's answer to one of our requests, or the text of its error.
pub(super) type EditorResponse = Result<Box<RawValue>, String>;

pub(super) struct EditorConnection {
    pub(super) engine: Engine,
    pub(super) profiles: Arc<dyn Profiles>,
    pub(super) settings: AcpSettings,
    pub(super) output: StdioOutput,
    pub(super) tasks: TaskGroup,
    capabilities: Mutex<EditorCapabilities>,
    sessions: Mutex<HashMap<SessionId, OpenSession>>,
    pending_requests: Mutex<PendingRequests<oneshot::Sender<EditorResponse>>>,
}

impl EditorConnection {
    pub(super) fn new(
        engine: Engine,
        profiles: Arc<dyn Profiles>,
        settings: AcpSettings,
        output: StdioOutput,
        tasks: TaskGroup,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            profiles,
            settings,
            output,
            tasks,
            capabilities: Mutex::default(),
            sessions: Mutex::default(),
            pending_requests: Mutex::default(),
        })
    }

    pub(super) fn capabilities(&self) -> EditorCapabilities {
        *self.capabilities.lock()
    }

    pub(super) fn set_capabilities(&self, client: EditorCapabilities) {
        *self.capabilities.lock() = client;
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, OpenSession>> {
        self.sessions.lock()
    }

    pub(super) fn pending_requests(
        &self,
    ) -> MutexGuard<'_, PendingRequests<oneshot::Sender<EditorResponse>>> {
        self.pending_requests.lock()
    }

    /// Cancels the running prompt of a session, if there is one.
    pub(super) fn cancel_prompt(&self, session: SessionId) {
        if let Some(running) =
            (self.sessions().get(&session)).and_then(|open| open.running_prompt.as_ref())
        {
            running.cancel();
        }
    }

    pub(super) async fn send_result<T: Serialize + ?Sized>(&self, id: &RpcId<'_>, result: &T) {
        match encode::result(VersionField::Include, id, result) {
            Ok(line) => self.send_lines(line).await,
            Err(error) => tracing::error!(%error, "cannot serialize an answer"),
        }
    }

    pub(super) async fn send_error(&self, id: &RpcId<'_>, refusal: &AcpError) {
        match encode::error(VersionField::Include, id, &refusal.to_error_object()) {
            Ok(line) => self.send_lines(line).await,
            Err(error) => tracing::error!(%error, "cannot serialize an answer"),
        }
    }

    /// Sends an error with the id `null`, in response to a line without a readable id.
    pub(super) async fn send_error_without_id(&self, refusal: &AcpError) {
        #[derive(Serialize)]
        struct NullIdError<'a, E> {
            jsonrpc: &'static str,
            id: (),
            error: &'a E,
        }
        let message = NullIdError { jsonrpc: "2.0", id: (), error: &refusal.to_error_object() };
        if let Ok(mut line) = serde_json::to_vec(&message) {
            line.push(b'\n');
            self.send_lines(line).await;
        }
    }

    /// Sends lines to the editor. Ignores a closed stdout, because the read loop notices it.
    pub(super) async fn send_lines(&self, lines: Vec<u8>) {
        let _gone = self.output.send(lines).await;
    }

    /// Creates a request to the editor: its line, and the handle that waits for the answer. Returns
    /// `None` if the editor has disconnected.
    pub(super) fn prepare_request<P: Serialize>(
        self: &Arc<Self>,
        method: &'static str,
        params: &P,
    ) -> Option<(Vec<u8>, PendingEditorRequest)> {
        let (sender, answer) = oneshot::channel();
        let id = self.pending_requests().register(sender).ok()?;
        let waiting = PendingEditorRequest::new(Arc::clone(self), id, answer);
        let line = encode::request(VersionField::Include, waiting.id(), method, params);
        Some((line.ok()?, waiting))
    }
}
