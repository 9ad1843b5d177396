//! The operations that the tools need from the surrounding program.

use std::{fmt, sync::Arc};

use angelia_core::{
    model::SessionId,
    ports::{BoxFuture, DelegateProfile, DelegateResult, Store, StoreError},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::arguments::{BusSendArgs, DelegateArgs};

pub trait ToolBackend: Send + Sync + 'static {
    /// Checks that the caller may use the tool. Not every agent asks for permission before a call.
    fn check_permission<'a>(&'a self, tool: &'a str) -> BoxFuture<'a, Result<(), ToolCallError>>;

    /// Returns the profiles that the caller may delegate to, for the tool's description.
    fn delegates(&self) -> Vec<DelegateProfile>;

    /// Returns the records that the caller may see.
    fn records(&self) -> BoxFuture<'_, Result<VisibleRecords, ToolCallError>>;

    /// Runs a turn of another profile to its end. Cancelling `stop` interrupts it.
    fn delegate(
        &self,
        task: DelegateArgs,
        progress: ProgressReporter,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<DelegateResult, ToolCallError>>;

    /// Sends a bus message. Returns a text that tells whether it was delivered or queued.
    fn bus_send(&self, message: BusSendArgs) -> BoxFuture<'_, Result<String, ToolCallError>>;

    fn bus_status(&self) -> BoxFuture<'_, Result<String, ToolCallError>>;

    /// Returns the caller's own endpoint and session.
    fn bus_info(&self) -> BoxFuture<'_, Result<String, ToolCallError>>;
}

/// The store, limited to the records that the caller may see.
pub struct VisibleRecords {
    pub store: Arc<dyn Store>,
    pub visibility: Visibility,
}

impl fmt::Debug for VisibleRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VisibleRecords")
            .field("visibility", &self.visibility)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The owner sees everything.
    Everything,
    /// An agent sees its own session, and those that it started by delegating, directly or
    /// indirectly.
    SessionTree(SessionId),
}

/// Why a tool call failed, with advice on what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct ToolCallError {
    pub message: String,
    pub hint: Option<String>,
}

impl ToolCallError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<StoreError> for ToolCallError {
    fn from(error: StoreError) -> Self {
        Self::new(error.to_string())
    }
}

/// Reports the progress of a running turn. Drops reports that the client does not take in time.
#[derive(Clone, Debug)]
pub struct ProgressReporter(Option<mpsc::Sender<String>>);

impl ProgressReporter {
    pub(super) fn new(sender: mpsc::Sender<String>) -> Self {
        Self(Some(sender))
    }

    /// Returns a reporter that drops everything.
    pub const fn silent() -> Self {
        Self(None)
    }

    pub fn report(&self, what: impl Into<String>) {
        let Some(sender) = &self.0 else { return };
        let _too_fast = sender.try_send(what.into());
    }
}
