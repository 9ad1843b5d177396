//! One interface to the turns of a home, whether they run in this process or in its daemon.
//!
//! - [`TurnService`]: finds sessions, submits turns, follows, decides and interrupts them.
//! - [`EngineTurns`]: implements it on this process's engine. The daemon's client is the other
//!   implementation.
//! - [`TurnServiceError`]: the errors of both.

mod engine;
mod error;

use std::{fmt, sync::Arc};

use angelia_core::{
    engine::EventBatch,
    model::{ApprovalId, Decision, SessionId, TurnId, TurnOrigin},
    ports::BoxFuture,
};

pub use self::{
    engine::{EngineTurns, SpecOverrides},
    error::{TurnErrorKind, TurnServiceError},
};
use crate::http::{
    CompactionResult, NewSessionBody, TurnBody,
    resources::{SessionResource, TurnResource},
};

pub type ServiceFuture<'a, T> = BoxFuture<'a, Result<T, TurnServiceError>>;

pub trait TurnService: Send + Sync + 'static {
    /// Returns whether the owner can decide approvals of these turns, and interrupt the turns, from
    /// another process.
    fn is_shared(&self) -> bool;

    fn session(&self, id: SessionId) -> ServiceFuture<'_, SessionResource>;

    /// Returns the session that the owner gave this name.
    fn find_session<'a>(&'a self, name: &'a str) -> ServiceFuture<'a, Option<SessionResource>>;

    /// Creates a session. `at_terminal` tells whether the owner sits at a terminal.
    fn create_session(
        &self,
        new: NewSessionBody,
        at_terminal: bool,
    ) -> ServiceFuture<'_, SessionResource>;

    /// Changes the model of a session from its next turn on. Restarts the agent on the same
    /// conversation.
    fn change_model(&self, id: SessionId, model: Arc<str>) -> ServiceFuture<'_, SessionResource>;

    fn fork_session(&self, id: SessionId) -> ServiceFuture<'_, SessionResource>;

    /// Compacts the conversation of a session. No turn may be running in it.
    fn compact_session(&self, id: SessionId) -> ServiceFuture<'_, CompactionResult>;

    fn delete_session(&self, id: SessionId) -> ServiceFuture<'_, ()>;

    fn submit(&self, new: TurnSubmission) -> ServiceFuture<'_, AcceptedTurn>;

    /// Follows a turn that another client submitted, from its first event.
    fn watch(&self, turn: TurnId) -> ServiceFuture<'_, Box<dyn TurnEventSource>>;

    fn turn(&self, id: TurnId) -> ServiceFuture<'_, TurnResource>;

    /// Asks a turn to stop, or kills its agent.
    fn interrupt(&self, turn: TurnId, kill: bool) -> ServiceFuture<'_, ()>;

    /// Decides an approval; the first decision wins.
    fn decide(&self, approval: ApprovalId, decision: Decision) -> ServiceFuture<'_, ()>;
}

/// A request to run a turn.
#[derive(Clone, Debug)]
pub struct TurnSubmission {
    pub session: SessionId,
    pub body: TurnBody,
    pub origin: TurnOrigin,
    /// The idempotency key: the turn runs once per key.
    pub key: Option<String>,
    /// Whether the turn ends with this process: a daemon interrupts it when the connection is lost.
    pub hold: bool,
}

/// An accepted turn, and its events from the first one.
pub struct AcceptedTurn {
    pub turn: TurnId,
    /// Whether the turn was submitted before with the same key.
    pub is_repeat: bool,
    pub events: Box<dyn TurnEventSource>,
}

impl fmt::Debug for AcceptedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptedTurn")
            .field("turn", &self.turn)
            .field("is_repeat", &self.is_repeat)
            .finish_non_exhaustive()
    }
}

/// The events of a turn.
pub trait TurnEventSource: Send {
    /// Waits for events and returns all that have arrived, or `None` after the last. Cancel safe.
    fn next(&mut self) -> ServiceFuture<'_, Option<EventBatch>>;
}
