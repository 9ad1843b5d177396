//! The vocabulary of Angelia as plain data. Nothing here is `Serialize`: each boundary (disk, HTTP,
//! stdio) owns its format and derives it for both directions.

mod access;
mod approval;
mod audit;
mod browser;
pub mod bus;
mod content;
mod edit;
mod event;
mod failure;
mod fingerprint;
mod first_words;
mod grant;
mod id_prefix;
mod ids;
mod limits;
mod native;
mod outcome;
mod past_conversation;
mod permission;
mod quota;
mod review;
mod schedule;
mod search;
mod session;
mod spec;
mod tool;
mod turn;
mod usage;
mod usage_totals;

pub use access::{ApprovalStage, CommandAccess, CommandLine, ToolAccess};
pub use approval::{
    Approval, ApprovalKind, ApprovalRecord, ApprovalRequest, Decision, Question, QuestionAnswer,
    QuestionOption, Resolution, Verdict,
};
pub use audit::{AuditAction, AuditActor, AuditEntry, AuditRecord, UnknownAuditWord};
pub use browser::BrowserRecord;
pub use bus::{EndpointName, MessageId};
pub use content::{Content, HistoryMessage, MessagePart, Role};
pub use edit::{CellChange, FileChange, FileEdit, TextReplacement};
pub use event::{
    AgentStart, BlockId, EventKind, Notice, NoticeLevel, Plan, PlanItem, PlanStatus, Seq,
    TextChannel, TurnEvent,
};
pub use failure::{Failure, FailureKind};
pub use fingerprint::LaunchFingerprint;
pub use first_words::first_words;
pub use grant::{GrantRule, StoredRule};
pub use id_prefix::{IdPrefix, write_id_start};
pub use ids::{AgentId, ApprovalId, NativeSessionId, ScheduleId, SessionId, ToolId, TurnId};
pub use limits::{Budgets, TurnTimeouts};
pub use native::{
    CompactionSettings, MemoryUse, NativeSettings, ReasoningEffort, SandboxMode,
    SummaryFailurePolicy,
};
pub use outcome::{Outcome, TurnStatus};
pub use past_conversation::{PastConversation, PastTurn};
pub(crate) use permission::glob_matches;
pub use permission::{PermissionLevel, Permissions, ToolPattern, ToolPatternError};
pub use quota::{Quota, QuotaReport};
pub use review::{MEMORY_CHANGED_NOTICE, REVIEWED_NOTICE, ReviewPlan};
pub use schedule::{
    CronTrigger, MissedPolicy, Occurrence, OccurrenceStatus, OverlapPolicy, ScheduleRecord,
    ScheduleSummary, Trigger, TriggerError,
};
pub use search::{Excerpt, SearchMatch, SearchQuery, SearchTerms, Speaker, fold_text};
pub use session::{
    ExternalName, LatestTurn, SessionRecord, SessionSource, SessionSummary, UnknownSource,
};
pub use spec::{Billing, CallerTool, Mode, SessionSpec, SystemPrompt, ToolSet};
pub use tool::{ToolCall, ToolClass, ToolResult};
pub use turn::{
    OWNER_ACCOUNT, ToolChoice, Turn, TurnOptions, TurnOrigin, TurnRecord, TurnState, TurnTask,
};
pub use usage::{ContextWindow, TokenPrice, Usage};
pub use usage_totals::{ColdReason, ColdStart, UsageBucket, UsageGroup, UsageQuery, UsageTotals};

/// JSON text from the agent, byte for byte, shared without copying.
pub type RawJson = std::sync::Arc<serde_json::value::RawValue>;
