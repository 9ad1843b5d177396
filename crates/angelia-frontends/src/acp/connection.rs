//! The connection to one editor: its capabilities, its open sessions, and the messages to it.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use angelia_core::{engine::Engine, model::SessionId, ports::Profiles, task::Tasks};
use angelia_wire::jsonrpc::{Dialect, Id, Pending, encode};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{asking::Waiting, errors::Refusal, meter::Spent, options::Chosen, update::Features};
use crate::stdio::Output;

/// The settings of the frontend.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The profile of new sessions. `None`: the default one.
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
pub(super) struct Client {
    pub(super) features: Features,
    /// The editor can show forms (`elicitation.form`).
    pub(super) forms: bool,
}

/// A session that the editor has open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) cwd: PathBuf,
    pub(super) images: bool,
    pub(super) chosen: Chosen,
    pub(super) titled: bool,
    pub(super) spent: Spent,
    /// Cancels the running prompt. `None`: no prompt is running.
    pub(super) running: Option<CancellationToken>,
}

/// The editor's answer to one of our requests, or the text of its error.
pub(super) type Answer = Result<Box<RawValue>, String>;

pub(super) struct Connection {
    pub(super) engine: Engine,
    pub(super) profiles: Arc<dyn Profiles>,
    pub(super) settings: Settings,
    pub(super) output: Output,
    pub(super) tasks: Tasks,
    client: Mutex<Client>,
    sessions: Mutex<HashMap<SessionId, Open>>,
    asked: Mutex<Pending<oneshot::Sender<Answer>>>,
}

impl Connection {
    pub(super) fn new(
        engine: Engine,
        profiles: Arc<dyn Profiles>,
        settings: Settings,
        output: Output,
        tasks: Tasks,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            profiles,
            settings,
            output,
            tasks,
            client: Mutex::default(),
            sessions: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    pub(super) fn client(&self) -> Client {
        *lock(&self.client)
    }

    pub(super) fn introduce(&self, client: Client) {
        *lock(&self.client) = client;
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Open>> {
        lock(&self.sessions)
    }

    pub(super) fn asked(&self) -> MutexGuard<'_, Pending<oneshot::Sender<Answer>>> {
        lock(&self.asked)
    }

    /// Cancels the prompt that runs in a session, if there is one.
    pub(super) fn cancel(&self, session: SessionId) {
        if let Some(running) =
            (self.sessions().get(&session)).and_then(|open| open.running.as_ref())
        {
            running.cancel();
        }
    }

    pub(super) async fn answer<T: Serialize + ?Sized>(&self, id: &Id<'_>, result: &T) {
        match encode::result(Dialect::V2, id, result) {
            Ok(line) => self.say(line).await,
            Err(error) => tracing::error!(%error, "cannot serialize an answer"),
        }
    }

    pub(super) async fn refuse(&self, id: &Id<'_>, refusal: &Refusal) {
        match encode::error(Dialect::V2, id, &refusal.object()) {
            Ok(line) => self.say(line).await,
            Err(error) => tracing::error!(%error, "cannot serialize an answer"),
        }
    }

    /// Sends an error with the id `null`, in answer to a line without a readable id.
    pub(super) async fn refuse_line(&self, refusal: &Refusal) {
        #[derive(Serialize)]
        struct Message<'a, E> {
            jsonrpc: &'static str,
            id: (),
            error: &'a E,
        }
        let message = Message { jsonrpc: "2.0", id: (), error: &refusal.object() };
        if let Ok(mut line) = serde_json::to_vec(&message) {
            line.push(b'\n');
            self.say(line).await;
        }
    }

    /// Sends lines to the editor. A closed stdout is ignored here: the read loop notices it.
    pub(super) async fn say(&self, lines: Vec<u8>) {
        let _gone = self.output.send(lines).await;
    }

    /// Creates a request to the editor: its line, and the handle that waits for the answer. `None`:
    /// the editor has disconnected.
    pub(super) fn request<P: Serialize>(
        self: &Arc<Self>,
        method: &'static str,
        params: &P,
    ) -> Option<(Vec<u8>, Waiting)> {
        let (sender, answer) = oneshot::channel();
        let id = self.asked().ask(sender).ok()?;
        let waiting = Waiting::new(Arc::clone(self), id, answer);
        let line = encode::request(Dialect::V2, waiting.id(), method, params);
        Some((line.ok()?, waiting))
    }
}

/// Ignores poisoning: every change is a single step, so a panic cannot leave the data half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
