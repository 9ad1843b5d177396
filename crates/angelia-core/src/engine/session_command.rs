//! The commands that a session's actor accepts.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    facade::{EngineError, SubmitReply},
    respec::Respec,
    spend::SpendLimit,
    turn_log::TurnLog,
};
use crate::{
    model::{ApprovalId, Content, Decision, SessionRecord, ToolId, TurnId},
    ports::{Lease, NewTurn, StoreError},
};

pub(super) enum SessionCommand {
    Submit(Box<SubmitCommand>),
    Interrupt {
        turn: TurnId,
        kill: bool,
    },
    Decide {
        approval: ApprovalId,
        decision: Decision,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Adds text to a running turn. The reply returns the text if the agent cannot accept it.
    Steer {
        turn: TurnId,
        input: Vec<Content>,
        reply: oneshot::Sender<Result<Option<Vec<Content>>, EngineError>>,
    },
    /// Passes the result of a caller's tool to a running turn.
    ToolResult {
        turn: TurnId,
        id: ToolId,
        ok: bool,
        content: Vec<Content>,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Changes the launch specification.
    Respec {
        respec: Respec,
        reply: oneshot::Sender<Result<Option<SessionRecord>, StoreError>>,
    },
    /// Ends the running turn and the actor, and passes the lease to the sender.
    End {
        reply: oneshot::Sender<Lease>,
    },
}

/// A turn to accept.
pub(super) struct SubmitCommand {
    pub(super) new_turn: NewTurn,
    pub(super) spend_limit: Option<SpendLimit>,
    pub(super) one_off: bool,
    pub(super) log: Arc<TurnLog>,
    pub(super) reply: oneshot::Sender<Result<SubmitReply, EngineError>>,
}
