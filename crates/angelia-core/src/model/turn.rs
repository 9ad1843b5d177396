//! One input and everything until its outcome.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Content, Outcome, SessionId, TurnId};

/// What an agent is asked to do.
#[derive(Clone, Debug)]
pub struct Turn {
    pub id: TurnId,
    pub session: SessionId,
    pub input: Vec<Content>,
    pub options: TurnOptions,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TurnOptions {
    pub origin: Origin,
    /// Somebody who can answer approvals is watching; without, they are declined with a notice.
    pub can_ask: bool,
    /// A quota that is used up makes it wait for the reset; without, it fails and says when.
    pub can_park: bool,
    /// Whose turn it is, where somebody but the owner asks: its cost is counted under this name.
    pub caller: Option<Arc<str>>,
    /// What it may cost besides what the profile allows.
    pub max_cost_usd: Option<f64>,
}

impl TurnOptions {
    /// A turn that nobody else pays for, with nobody there to ask.
    pub const fn new(origin: Origin) -> Self {
        Self { origin, can_ask: false, can_park: false, caller: None, max_cost_usd: None }
    }
}

/// Where the text of a turn comes from, and therefore what it may trigger by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The owner's own terminal: slash commands and file mentions mean what they say.
    Owner,
    /// HTTP, chat, bus: text is only text.
    Remote,
}

impl Origin {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Remote => "remote",
        }
    }
}

/// A turn as the store keeps it.
#[derive(Clone, Debug)]
pub struct TurnRecord {
    pub id: TurnId,
    pub session: SessionId,
    pub input: Vec<Content>,
    pub options: TurnOptions,
    pub created_at: Timestamp,
    pub state: TurnState,
}

/// Where a turn is in its life.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnState {
    Queued,
    Running,
    AwaitingApproval,
    /// The agent waits for the results of the caller's tools.
    AwaitingToolResult,
    /// A quota is used up; the turn goes on by itself then.
    Parked {
        resumes_at: Timestamp,
    },
    Finished {
        at: Timestamp,
        outcome: Outcome,
    },
}

impl TurnState {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::AwaitingApproval => "awaiting_approval",
            Self::AwaitingToolResult => "awaiting_tool_result",
            Self::Parked { .. } => "parked",
            Self::Finished { outcome, .. } => outcome.status.as_str(),
        }
    }

    pub const fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Finished { outcome, .. } => Some(outcome),
            _ => None,
        }
    }
}
