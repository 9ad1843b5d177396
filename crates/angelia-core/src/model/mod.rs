//! The vocabulary of Angelia as plain data. Nothing here is `Serialize`: each boundary (disk, HTTP,
//! stdio) owns its format and converts by hand.

mod approval;
pub mod bus;
mod content;
mod event;
mod failure;
mod fingerprint;
mod govern;
mod ids;
mod outcome;
mod permission;
mod session;
mod spec;
mod tool;
mod turn;
mod usage;

pub use approval::{
    Answer, Approval, ApprovalKind, ApprovalRecord, ApprovalRequest, Decision, Question,
    QuestionOption, Resolution, Verdict,
};
pub use bus::{EndpointName, MessageId};
pub use content::{Content, Message, Part, Role};
pub use event::{
    BlockId, EventKind, Level, Notice, Plan, PlanItem, PlanStatus, Seq, Started, TextChannel,
    TurnEvent,
};
pub use failure::{Failure, FailureKind};
pub use fingerprint::LaunchFingerprint;
pub use govern::{Budgets, Clocks};
pub use ids::{AgentId, ApprovalId, NativeSessionId, SessionId, ToolId, TurnId};
pub use outcome::{Outcome, Status};
pub use permission::{BadPattern, PermissionLevel, Permissions, RuleAnswer, ToolPattern};
pub use session::{ExternalName, SessionRecord};
pub use spec::{Billing, CallerTool, Mode, SessionSpec, SystemPrompt, ToolSet};
pub use tool::{ToolCall, ToolClass, ToolResult};
pub use turn::{Origin, Turn, TurnOptions, TurnRecord, TurnState};
pub use usage::{ContextWindow, Usage};

/// JSON text of the agent, byte for byte, shared without copying.
pub type RawJson = std::sync::Arc<serde_json::value::RawValue>;
