//! The events of a turn.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Approval, NativeSessionId, Outcome, RawJson, Resolution, SessionId, ToolCall, ToolResult,
    TurnId, Usage,
};

/// Number of an event within its turn, counted from 1.
pub type Seq = u64;

/// Number of a text block within its turn, counted from 0.
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

/// The kind of an event. Exhaustive on purpose: every frontend must handle a new variant.
#[derive(Clone, Debug)]
pub enum EventKind {
    Started(AgentStart),
    /// A provisional piece of a block that is still being written.
    Delta {
        block: BlockId,
        channel: TextChannel,
        text: Arc<str>,
    },
    /// The complete, authoritative block. An empty text withdraws the block.
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
    /// Any other output of the agent, unchanged. Never dropped.
    Native {
        name: Box<str>,
        raw: RawJson,
    },
    Finished(Outcome),
}

impl EventKind {
    /// Returns whether the store keeps the event. Deltas are not stored, because their block has
    /// the complete text.
    pub const fn is_stored(&self) -> bool {
        !matches!(self, Self::Delta { .. })
    }

    /// Returns whether the event must be committed before it is shown. People act on such an event,
    /// so a crash must not undo it.
    pub const fn must_commit_first(&self) -> bool {
        matches!(self, Self::Approval(_) | Self::Resolved(_) | Self::Finished(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextChannel {
    Answer,
    Reasoning,
}

impl TextChannel {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Reasoning => "reasoning",
        }
    }
}

/// The agent and the model with which a turn started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentStart {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    pub model: Option<Arc<str>>,
    pub native_session_id: Option<NativeSessionId>,
    /// Whether the agent continues an earlier conversation of its own.
    pub resumed: bool,
    /// Whether the process was already running when the turn arrived.
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

/// Information for people. Notices never change how a turn runs.
#[derive(Clone, Debug)]
pub struct Notice {
    pub level: NoticeLevel,
    /// Stable identifier for programs: `retrying`, `rate_limited`, `compacting`, `declined` …
    pub code: Arc<str>,
    pub text: Arc<str>,
    /// The same information in fields, for programs: a JSON object.
    pub detail: Option<RawJson>,
}

impl Notice {
    pub fn new(level: NoticeLevel, code: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { level, code: code.into(), text: text.into(), detail: None }
    }

    #[must_use]
    pub fn with_detail(mut self, detail: RawJson) -> Self {
        self.detail = Some(detail);
        self
    }
}

impl PartialEq for Notice {
    fn eq(&self, other: &Self) -> bool {
        let detail =
            |notice: &'_ Self| notice.detail.as_ref().map(|detail| detail.get().to_owned());
        (self.level, &self.code, &self.text) == (other.level, &other.code, &other.text)
            && detail(self) == detail(other)
    }
}

impl Eq for Notice {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeLevel {
    Info,
    Warning,
}

impl NoticeLevel {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
        }
    }
}
