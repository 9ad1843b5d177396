//! Turns: one input and everything up to its outcome.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Content, Outcome, SessionId, TurnId};

/// The owner's account.
pub const OWNER_ACCOUNT: &str = "owner";

/// A turn in the form in which an agent gets it.
#[derive(Clone, Debug)]
pub struct Turn {
    pub id: TurnId,
    pub session: SessionId,
    pub input: Vec<Content>,
    pub options: TurnOptions,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TurnOptions {
    pub origin: TurnOrigin,
    /// Whether a person can decide approvals. Otherwise they are denied with a notice.
    pub can_ask: bool,
    /// Whether the turn is parked until the reset when a quota is exhausted. Otherwise it fails and
    /// reports the reset time.
    pub can_park: bool,
    /// The caller that sent the turn; `None` for the owner.
    pub caller: Option<Arc<str>>,
    /// The account that pays, if it is not the caller's. Work that an agent delegates is charged to
    /// the account that pays for the agent's own turn.
    pub charged_to: Option<Arc<str>>,
    /// The caller's cost limit. The lower of this and the profile's limit applies.
    pub max_cost_usd: Option<f64>,
    /// Whether the agent must call one of the caller's tools, for executors that support this. Not
    /// stored, because the choice concerns only this turn and the caller waits for its answer.
    pub tool_choice: ToolChoice,
    /// Not stored either, because a compaction runs at once or not at all.
    pub task: TurnTask,
}

/// What a turn is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnTask {
    /// Answers its input.
    #[default]
    Answer,
    /// Has the agent shorten its conversation. The turn has no input and no answer.
    Compact,
}

/// Whether the model may or must call one of the caller's tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Named(Arc<str>),
}

impl TurnOptions {
    /// Returns the options of an owner's turn without a person to decide approvals.
    pub const fn new(origin: TurnOrigin) -> Self {
        Self {
            origin,
            can_ask: false,
            can_park: false,
            caller: None,
            charged_to: None,
            max_cost_usd: None,
            tool_choice: ToolChoice::Auto,
            task: TurnTask::Answer,
        }
    }

    /// Returns whether the owner sent the turn, as far as the turn itself tells.
    pub fn is_owners(&self) -> bool {
        self.account().is_none_or(|account| **account == *OWNER_ACCOUNT)
    }

    /// Returns the account that pays for the turn; `None` for the owner.
    pub fn account(&self) -> Option<&Arc<str>> {
        self.charged_to.as_ref().or(self.caller.as_ref())
    }
}

/// Where a turn's text comes from, which decides what the text itself may trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnOrigin {
    /// The owner's own terminal: slash commands and file mentions take effect.
    Owner,
    /// HTTP, chat, bus: the text is plain text.
    Remote,
}

impl TurnOrigin {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Remote => "remote",
        }
    }
}

/// A turn as stored.
#[derive(Clone, Debug)]
pub struct TurnRecord {
    pub id: TurnId,
    pub session: SessionId,
    pub input: Vec<Content>,
    pub options: TurnOptions,
    pub created_at: Timestamp,
    pub state: TurnState,
}

impl From<TurnRecord> for Turn {
    fn from(record: TurnRecord) -> Self {
        let TurnRecord { id, session, input, options, .. } = record;
        Self { id, session, input, options }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum TurnState {
    Queued,
    /// Queued by a process that left the turn to the next one.
    HandedOver,
    Running,
    AwaitingApproval,
    /// The agent waits for the results of the caller's tools.
    AwaitingToolResult,
    /// A quota is exhausted; the turn resumes automatically at this time.
    Parked {
        resumes_at: Timestamp,
    },
    Finished {
        at: Timestamp,
        outcome: Outcome,
    },
}

impl TurnState {
    /// The names of the states of a turn that has not ended.
    pub const UNFINISHED: [&'static str; 5] =
        ["queued", "running", "awaiting_approval", "awaiting_tool_result", "parked"];

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Queued | Self::HandedOver => "queued",
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
