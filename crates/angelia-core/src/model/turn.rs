//! One input and everything until its outcome.

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnOptions {
    pub origin: Origin,
    /// Somebody who can answer approvals is watching; without, they are declined with a notice.
    pub can_ask: bool,
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
    Finished { at: Timestamp, outcome: Outcome },
}

impl TurnState {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::AwaitingApproval => "awaiting_approval",
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
