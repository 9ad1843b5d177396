//! The steps of a turn.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Approval, NativeSessionId, Outcome, RawJson, Resolution, SessionId, ToolCall, ToolResult,
    TurnId, Usage,
};

/// The number of an event within its turn, upward from 1.
pub type Seq = u64;

/// The number of a text block within its turn, upward from 0.
pub type BlockId = u32;

/// One numbered, recorded step of a turn.
#[derive(Clone, Debug)]
pub struct TurnEvent {
    pub turn: TurnId,
    pub session: SessionId,
    pub seq: Seq,
    pub at: Timestamp,
    pub kind: EventKind,
}

/// What happened. Closed on purpose: a new variant must be answered by every frontend.
#[derive(Clone, Debug)]
pub enum EventKind {
    Started(Started),
    /// A piece of a block as it is written; provisional.
    Delta {
        block: BlockId,
        channel: TextChannel,
        text: Arc<str>,
    },
    /// The whole block; authoritative. An empty text withdraws the block.
    Block {
        block: BlockId,
        channel: TextChannel,
        text: Arc<str>,
    },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Plan(Plan),
    Approval(Approval),
    Resolved(Resolution),
    Usage(Usage),
    Notice(Notice),
    /// Anything the agent said that we do not model; never dropped.
    Native {
        name: Box<str>,
        raw: RawJson,
    },
    Finished(Outcome),
}

impl EventKind {
    /// Deltas are not stored: their block carries the whole text.
    pub const fn is_stored(&self) -> bool {
        !matches!(self, Self::Delta { .. })
    }

    /// Committed before anybody sees it: what people act on must not be taken back by a crash.
    pub const fn is_committed_first(&self) -> bool {
        matches!(self, Self::Approval(_) | Self::Resolved(_) | Self::Finished(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextChannel {
    Answer,
    Reasoning,
}

/// The agent has taken the turn up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    pub model: Option<Arc<str>>,
    pub native_session_id: Option<NativeSessionId>,
    /// The agent continues an earlier conversation of its own.
    pub resumed: bool,
    /// The process was already started when the turn came.
    pub warm: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub items: Vec<PlanItem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanItem {
    pub text: Arc<str>,
    pub status: PlanStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}

impl PlanStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// Something people may want to know; never decides anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub level: Level,
    /// Stable, for programs: `retrying`, `rate_limited`, `compacting`, `declined` …
    pub code: Arc<str>,
    pub text: Arc<str>,
}

impl Notice {
    pub fn new(level: Level, code: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { level, code: code.into(), text: text.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    Info,
    Warning,
}

impl Level {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
        }
    }
}
