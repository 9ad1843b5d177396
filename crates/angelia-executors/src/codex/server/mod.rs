//! One app-server process, and the handle through which agents talk to it.
//!
//! ```text
//!  agents ── calls, replies ──► actor ──► stdin
//!         ◄── responses ─────── │ ▲ ◄──── stdout
//!         ◄── inbox per thread ─┘ └ reads always, so that no thread waits for another
//! ```
//!
//! - [`actor`]: owns the process and its pipes.
//! - [`routes`]: finds the thread a message belongs to, and whether its inbox has room.
//! - [`inbox`]: the bounded queue of messages for one thread.
//! - [`start`]: starts a process and waits for the `initialize` handshake.

mod actor;
mod inbox;
mod routes;
mod start;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    model::{Failure, FailureKind},
    ports::Login,
};
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

pub(super) use self::inbox::{Inbox, Said};
use super::protocol::{
    message::{RequestId, RpcError},
    opened::{self, ConfigWarning, Opened},
    outgoing::{self, AccountRead, Call, Unsubscribe},
};

/// How long to wait for a response. It must be long, because MCP servers may be slow to start.
const CALL_LIMIT: Duration = Duration::from_secs(90);

/// How long to wait until a thread is unloaded; it usually takes milliseconds.
const UNLOAD_LIMIT: Duration = Duration::from_secs(2);

/// Capacity of the actor's command queue; the actor takes commands at once.
const COMMANDS: usize = 256;

pub(super) type Answered = Result<Box<RawValue>, RpcError>;

/// A handle to a running app-server process; cheap to clone. The process ends when it is closed,
/// when it drains and its last thread leaves, or when it has been unused for a while.
#[derive(Clone, Debug)]
pub(super) struct Server {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    commands: mpsc::Sender<Command>,
    ids: Arc<AtomicU64>,
    life: watch::Receiver<Life>,
    condemned: Arc<AtomicBool>,
    fault: watch::Receiver<Option<ConfigWarning>>,
    /// Names of the MCP servers in the user's own configuration.
    own_servers: OnceLock<Vec<Box<str>>>,
}

#[derive(Clone, Debug)]
enum Life {
    Running,
    /// The process is exiting or has exited; holds the reason, for people.
    Ending(Arc<str>),
    /// The process and its descendants are gone; holds the reason, for people.
    Gone(Arc<str>),
}

enum Command {
    Call {
        id: u64,
        line: Vec<u8>,
        answer: oneshot::Sender<Answered>,
        /// Receives the messages of the thread that this call opens.
        subscriber: Option<inbox::Sender>,
    },
    /// Writes a response to one of the app-server's own requests.
    Line(Vec<u8>),
    /// Stops delivering messages of this thread.
    Leave(Arc<str>),
    Close(Duration),
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("{0}")]
    Refused(RpcError),
    #[error("the process has ended")]
    Gone,
    #[error("there was no answer within {CALL_LIMIT:?}")]
    Silent,
}

impl CallError {
    /// Converts the error for people; `what` names the action that failed.
    pub(super) fn failure(&self, what: &str) -> Failure {
        let message = format!("Codex did not {what}: {self}");
        match self {
            Self::Refused(error) => {
                Failure::new(FailureKind::Agent, message).with_hint(hint_of(&error.message))
            }
            Self::Gone => Failure::new(FailureKind::Agent, message)
                .with_hint("send the message again; the session continues where it was"),
            Self::Silent => Failure::new(FailureKind::Timeout, message)
                .with_hint("an MCP server may be slow to start; `codex mcp list` shows them"),
        }
    }
}

fn hint_of(message: &str) -> &'static str {
    if message.contains("configuration") {
        "correct its config.toml, then try again"
    } else if message.contains("active writer") {
        "the conversation is open in another Codex; close it there, then try again"
    } else {
        "`angelia doctor` shows what is installed"
    }
}

impl Server {
    pub(super) fn own_servers(&self) -> &[Box<str>] {
        self.shared.own_servers.get().map_or(&[], Vec::as_slice)
    }

    /// Returns whether the process can take another thread.
    pub(super) fn takes_threads(&self) -> bool {
        self.is_open() && !self.shared.condemned.load(Ordering::Relaxed)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(*self.shared.life.borrow(), Life::Running)
    }

    /// Stops giving the process new threads; it exits with its last thread.
    pub(super) fn condemn(&self) {
        self.shared.condemned.store(true, Ordering::Relaxed);
    }

    /// Sends a request. The receiver yields the response, and closes when the process exits.
    pub(super) async fn begin<C: Call>(&self, call: &C) -> oneshot::Receiver<Answered> {
        self.begin_for(call, None).await
    }

    async fn begin_for<C: Call>(
        &self,
        call: &C,
        subscriber: Option<inbox::Sender>,
    ) -> oneshot::Receiver<Answered> {
        let id = self.shared.ids.fetch_add(1, Ordering::Relaxed);
        let (answer, receiver) = oneshot::channel();
        let command = Command::Call { id, line: outgoing::request(id, call), answer, subscriber };
        // If the actor has ended, the command is dropped, and with it the sender of the response.
        let _ended = self.shared.commands.send(command).await;
        receiver
    }

    pub(super) async fn call<C: Call>(&self, call: &C) -> Result<Box<RawValue>, CallError> {
        wait(self.begin(call).await).await
    }

    /// Makes a call that opens a thread; every later message of the thread goes to the inbox.
    pub(super) async fn open<C: Call>(&self, call: &C) -> Result<(Opened, Inbox), CallError> {
        let (sender, inbox) = inbox::new();
        let result = wait(self.begin_for(call, Some(sender)).await).await?;
        let opened = Opened::of(&result).ok_or_else(|| {
            CallError::Refused(RpcError {
                code: 0,
                message: "its response names no thread".to_owned(),
            })
        })?;
        Ok((opened, inbox))
    }

    /// Unloads a thread and stops listening to it. Waits until Codex has unloaded it, so that the
    /// thread can be resumed with other settings.
    pub(super) async fn leave(&self, thread: &Arc<str>, mut inbox: Inbox) {
        let unloaded = async {
            if self.call(&Unsubscribe { thread_id: thread }).await.is_err() {
                return;
            }
            let mut batch = Vec::new();
            loop {
                inbox.next(&mut batch).await;
                let closed = |said: &Said| matches!(said, Said::Notification { method, .. } if &**method == "thread/closed");
                if batch.is_empty() || batch.drain(..).any(|said| closed(&said)) {
                    return;
                }
            }
        };
        let _still_loaded = timeout(UNLOAD_LIMIT, unloaded).await;
        let left = Command::Leave(Arc::clone(thread));
        let _ended = self.shared.commands.send(left).await;
    }

    pub(super) async fn reply(&self, id: &RequestId, result: &RawValue) {
        let line = Command::Line(outgoing::result(id, result));
        let _ended = self.shared.commands.send(line).await;
    }

    pub(super) async fn refuse(&self, id: &RequestId, error: &RpcError) {
        let line = Command::Line(outgoing::error(id, error));
        let _ended = self.shared.commands.send(line).await;
    }

    /// Returns the current login, as far as it is known on this machine.
    pub(super) async fn login(&self) -> Login {
        match self.call(&AccountRead::default()).await {
            Ok(result) => opened::login(&result),
            Err(_) => Login::Unknown,
        }
    }

    /// Returns a failure if Codex ignores the user's configuration because it is broken.
    pub(super) fn fault(&self) -> Option<Failure> {
        let fault = self.shared.fault.borrow();
        fault.as_ref().map(broken_configuration)
    }

    /// Waits for the process to exit, and returns the reason, for people.
    pub(super) async fn last_words(&self) -> Arc<str> {
        let mut life = self.shared.life.clone();
        let ended = life.wait_for(|life| !matches!(life, Life::Running)).await;
        match ended.as_deref() {
            Ok(Life::Ending(words) | Life::Gone(words)) => Arc::clone(words),
            _ => "the reason is unknown".into(),
        }
    }

    /// Waits until the process and its descendants are gone.
    pub(super) async fn gone(&self) {
        let mut life = self.shared.life.clone();
        let _actor_gone = life.wait_for(|life| matches!(life, Life::Gone(_))).await;
    }

    pub(super) async fn close(&self, grace: Duration) {
        let _ended = self.shared.commands.send(Command::Close(grace)).await;
        self.gone().await;
    }
}

async fn wait(answer: oneshot::Receiver<Answered>) -> Result<Box<RawValue>, CallError> {
    match timeout(CALL_LIMIT, answer).await {
        Ok(Ok(Ok(result))) => Ok(result),
        Ok(Ok(Err(error))) => Err(CallError::Refused(error)),
        Ok(Err(_ended)) => Err(CallError::Gone),
        Err(_too_late) => Err(CallError::Silent),
    }
}

/// Codex would run with default settings, which may mean another provider and another account. So
/// this warning counts as a failure to start.
fn broken_configuration(warning: &ConfigWarning) -> Failure {
    let details = warning.details.as_deref().unwrap_or(&warning.summary);
    let message = format!("the configuration of Codex is broken: {details}");
    let hint = match &warning.path {
        Some(path) => format!("correct {path}, then try again"),
        None => "correct its config.toml, then try again".to_owned(),
    };
    Failure::new(FailureKind::Invalid, message).with_hint(hint)
}
