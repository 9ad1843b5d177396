//! One app-server process, and the handle through which agents talk to it.
//!
//! ```text
//!  agents ── calls, replies ──► actor ──► stdin
//!         ◄── responses ─────── │ ▲ ◄──── stdout
//!         ◄── inbox per thread ─┘ └ reads always, so that no thread waits for another
//! ```
//!
//! - [`actor`]: owns the process and its pipes.
//! - [`routes`]: finds the thread that a message belongs to, and checks whether its inbox has room.
//! - [`inbox`]: the bounded queue of messages for one thread.
//! - [`start`]: starts a process and waits for the `initialize` handshake.

mod actor;
mod inbox;
mod routes;
mod start;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    model::{Failure, FailureKind},
    ports::LoginState,
};
use angelia_wire::jsonrpc::ErrorObject;
use serde_json::value::{RawValue, to_raw_value};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

pub(super) use self::inbox::{ThreadInbox, ThreadMessage};
use super::protocol::{
    message::RequestId,
    outgoing::{AccountRead, Call, Unsubscribe},
    response::{self, ConfigWarning, ThreadInfo},
};

/// The longest wait for a response. It is long because MCP servers may be slow to start.
const CALL_LIMIT: Duration = Duration::from_secs(90);

/// The longest wait for a thread to be unloaded, which usually takes milliseconds.
const UNLOAD_LIMIT: Duration = Duration::from_secs(2);

/// The capacity of the actor's command queue. The actor takes commands at once.
const COMMAND_QUEUE_CAPACITY: usize = 256;

pub(super) type CallResult = Result<Box<RawValue>, ErrorObject>;

/// A handle to a running app-server process; cheap to clone. The process ends when it is closed,
/// when it is draining and its last thread leaves, or when it has been unused for a while.
#[derive(Clone, Debug)]
pub(super) struct AppServer {
    shared: Arc<AppServerShared>,
}

#[derive(Debug)]
struct AppServerShared {
    commands: mpsc::Sender<ActorCommand>,
    state: watch::Receiver<ProcessState>,
    draining: Arc<AtomicBool>,
    config_fault: watch::Receiver<Option<ConfigWarning>>,
    /// The names of the MCP servers in the user's own configuration.
    user_mcp_servers: OnceLock<Vec<Box<str>>>,
}

#[derive(Clone, Debug)]
enum ProcessState {
    Running,
    /// The process is exiting or has exited. Holds the reason, for messages.
    Ending(Arc<str>),
    /// The process and its descendants are gone. Holds the reason, for messages.
    Gone(Arc<str>),
}

enum ActorCommand {
    Call {
        method: &'static str,
        params: Box<RawValue>,
        response: oneshot::Sender<CallResult>,
        /// Receives the messages of the thread that this call opens.
        subscriber: Option<inbox::InboxSender>,
    },
    /// Answers one of the app-server's own requests.
    Reply(RequestId, CallResult),
    Notify(&'static str),
    /// Stops the delivery of this thread's messages.
    RemoveThread(Arc<str>),
    Close(Duration),
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodexCallError {
    #[error("{}", .0.message)]
    Refused(ErrorObject),
    #[error("the process has ended")]
    Gone,
    #[error("there was no answer within {CALL_LIMIT:?}")]
    Timeout,
}

impl CodexCallError {
    /// Converts the error to a failure. `what` names the action that failed.
    pub(super) fn to_failure(&self, what: &str) -> Failure {
        let message = format!("Codex did not {what}: {self}");
        match self {
            Self::Refused(error) => {
                Failure::new(FailureKind::Agent, message).with_hint(refusal_hint(&error.message))
            }
            Self::Gone => Failure::new(FailureKind::Agent, message)
                .with_hint("send the message again; the session continues where it was"),
            Self::Timeout => Failure::new(FailureKind::Timeout, message)
                .with_hint("an MCP server may be slow to start; `codex mcp list` shows them"),
        }
    }
}

fn refusal_hint(message: &str) -> &'static str {
    if message.contains("configuration") {
        "correct its config.toml, then try again"
    } else if message.contains("active writer") {
        "the conversation is open in another Codex; close it there, then try again"
    } else {
        "`angelia doctor` shows what is installed"
    }
}

impl AppServer {
    pub(super) fn user_mcp_servers(&self) -> &[Box<str>] {
        self.shared.user_mcp_servers.get().map_or(&[], Vec::as_slice)
    }

    /// Reports whether the process can take another thread.
    pub(super) fn accepts_threads(&self) -> bool {
        self.is_running() && !self.shared.draining.load(Ordering::Relaxed)
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(*self.shared.state.borrow(), ProcessState::Running)
    }

    /// Stops giving new threads to the process, which exits with its last thread.
    pub(super) fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Sends a request. The receiver yields the response, or closes if the process exits.
    pub(super) async fn send_request<C: Call>(&self, call: &C) -> oneshot::Receiver<CallResult> {
        self.send_request_for(call, None).await
    }

    async fn send_request_for<C: Call>(
        &self,
        call: &C,
        subscriber: Option<inbox::InboxSender>,
    ) -> oneshot::Receiver<CallResult> {
        let (response, receiver) = oneshot::channel();
        // Only a path that is not Unicode can fail here; in that case nothing is sent.
        let Ok(params) = to_raw_value(call) else {
            return receiver;
        };
        let command = ActorCommand::Call { method: C::METHOD, params, response, subscriber };
        // If the actor has ended, this drops the command and with it the sender of the response.
        let _ended = self.shared.commands.send(command).await;
        receiver
    }

    pub(super) async fn call<C: Call>(&self, call: &C) -> Result<Box<RawValue>, CodexCallError> {
        await_response(self.send_request(call).await).await
    }

    /// Makes a call that opens a thread. All later messages of the thread go to the inbox.
    pub(super) async fn open_thread<C: Call>(
        &self,
        call: &C,
    ) -> Result<(ThreadInfo, ThreadInbox), CodexCallError> {
        let (sender, inbox) = inbox::inbox_channel();
        let result = await_response(self.send_request_for(call, Some(sender)).await).await?;
        let opened = ThreadInfo::of(&result).ok_or_else(|| {
            CodexCallError::Refused(ErrorObject::new(0, "its response names no thread"))
        })?;
        Ok((opened, inbox))
    }

    /// Unloads a thread and stops listening to it. Waits until Codex has unloaded the thread, so
    /// that it can be resumed with other settings.
    pub(super) async fn release_thread(&self, thread: &Arc<str>, mut inbox: ThreadInbox) {
        let unloaded = async {
            if self.call(&Unsubscribe { thread_id: thread }).await.is_err() {
                return;
            }
            let is_closed = |message: &ThreadMessage| matches!(message, ThreadMessage::Notification { method, .. } if &**method == "thread/closed");
            loop {
                let batch = inbox.recv_batch().await;
                if batch.is_empty() || batch.iter().any(is_closed) {
                    return;
                }
            }
        };
        let _still_loaded = timeout(UNLOAD_LIMIT, unloaded).await;
        let left = ActorCommand::RemoveThread(Arc::clone(thread));
        let _ended = self.shared.commands.send(left).await;
    }

    /// Answers a request from the app-server.
    pub(super) async fn reply(&self, id: RequestId, result: CallResult) {
        let _ended = self.shared.commands.send(ActorCommand::Reply(id, result)).await;
    }

    /// Returns the current login, as known on this machine.
    pub(super) async fn read_login(&self) -> LoginState {
        match self.call(&AccountRead::default()).await {
            Ok(result) => response::parse_login(&result),
            Err(_) => LoginState::Unknown,
        }
    }

    /// Returns a failure if Codex ignores the user's configuration because it is broken.
    pub(super) fn config_failure(&self) -> Option<Failure> {
        let fault = self.shared.config_fault.borrow();
        fault.as_ref().map(broken_config_failure)
    }

    /// Waits for the process to exit, and returns the reason, for messages.
    pub(super) async fn exit_reason(&self) -> Arc<str> {
        let mut life = self.shared.state.clone();
        let ended = life.wait_for(|life| !matches!(life, ProcessState::Running)).await;
        match ended.as_deref() {
            Ok(ProcessState::Ending(words) | ProcessState::Gone(words)) => Arc::clone(words),
            _ => "the reason is unknown".into(),
        }
    }

    /// Waits until the process and its descendants are gone.
    pub(super) async fn wait_gone(&self) {
        let mut life = self.shared.state.clone();
        let _actor_gone = life.wait_for(|life| matches!(life, ProcessState::Gone(_))).await;
    }

    pub(super) async fn close(&self, grace: Duration) {
        let _ended = self.shared.commands.send(ActorCommand::Close(grace)).await;
        self.wait_gone().await;
    }
}

async fn await_response(
    answer: oneshot::Receiver<CallResult>,
) -> Result<Box<RawValue>, CodexCallError> {
    match timeout(CALL_LIMIT, answer).await {
        Ok(Ok(Ok(result))) => Ok(result),
        Ok(Ok(Err(error))) => Err(CodexCallError::Refused(error)),
        Ok(Err(_ended)) => Err(CodexCallError::Gone),
        Err(_too_late) => Err(CodexCallError::Timeout),
    }
}

/// Turns the warning into a failure to start, because Codex would run with default settings, which
/// may mean another provider and another account.
fn broken_config_failure(warning: &ConfigWarning) -> Failure {
    let details = warning.details.as_deref().unwrap_or(&warning.summary);
    let message = format!("the configuration of Codex is broken: {details}");
    let hint = match &warning.path {
        Some(path) => format!("correct {path}, then try again"),
        None => "correct its config.toml, then try again".to_owned(),
    };
    Failure::new(FailureKind::Invalid, message).with_hint(hint)
}
