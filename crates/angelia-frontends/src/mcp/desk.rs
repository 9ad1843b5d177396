//! What the tools need of the program around them.

use std::{fmt, sync::Arc};

use angelia_core::{
    model::{SessionId, TurnId},
    ports::{BoxFuture, Store, StoreError},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::arguments::{BusSend, Task};

pub trait Desk: Send + Sync + 'static {
    /// May the caller use the tool at all? Not every agent asks before it does.
    fn permitted<'a>(&'a self, tool: &'a str) -> BoxFuture<'a, Result<(), Refused>>;

    /// Whom the caller may hand work to, for the description of the tool.
    fn delegates(&self) -> Vec<Delegate>;

    /// What was recorded, as far as the caller may see it.
    fn records(&self) -> BoxFuture<'_, Result<Records, Refused>>;

    /// Runs a turn to its end. Cancelling `stop` interrupts it.
    fn delegate(
        &self,
        task: Task,
        progress: Progress,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<Answer, Refused>>;

    /// Sends a message, and says what became of it.
    fn send(&self, message: BusSend) -> BoxFuture<'_, Result<String, Refused>>;

    fn bus_status(&self) -> BoxFuture<'_, Result<String, Refused>>;

    /// The caller's own endpoint and session.
    fn bus_info(&self) -> BoxFuture<'_, Result<String, Refused>>;
}

/// A profile that work can be handed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegate {
    pub name: Arc<str>,
    /// In a few words.
    pub about: String,
}

/// The record, and how much of it the caller may see.
pub struct Records {
    pub store: Arc<dyn Store>,
    pub sight: Sight,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("sight", &self.sight).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The owner's.
    Everything,
    /// An agent's: its own session, and those it began by handing work on.
    From(SessionId),
}

/// How a delegated turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub session: SessionId,
    pub turn: TurnId,
    pub status: &'static str,
    pub text: String,
    /// Why it is no answer; `text` is then what there was of it.
    pub failed: Option<String>,
}

/// What cannot be done, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct Refused {
    pub message: String,
    pub hint: Option<String>,
}

impl Refused {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::new(error.to_string())
    }
}

/// Where a running turn says what it does. Whoever does not listen misses it.
#[derive(Clone, Debug)]
pub struct Progress(mpsc::Sender<String>);

impl Progress {
    pub(super) fn new(sender: mpsc::Sender<String>) -> Self {
        Self(sender)
    }

    pub fn say(&self, what: impl Into<String>) {
        let _too_fast = self.0.try_send(what.into());
    }
}
