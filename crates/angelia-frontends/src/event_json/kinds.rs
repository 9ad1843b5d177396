//! The fields of each type of event, each derived for both directions. A field that an older daemon
//! omits has a default. A word that only a newer daemon knows gets a neutral meaning where there is
//! one.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{
    AgentStart, Approval, ApprovalId, ApprovalKind, BlockId, NativeSessionId, Notice, NoticeLevel,
    Outcome, Plan, PlanItem, PlanStatus, Question, RawJson, Resolution, ToolCall, ToolClass,
    ToolId, ToolResult, TurnStatus, Verdict,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr, FromInto};

use super::{
    parts::{FailureJson, QuestionJson, UsageJson},
    time::Rfc3339,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "AgentStart")]
pub(super) struct StartedJson {
    profile: Arc<str>,
    executor: Arc<str>,
    model: Option<Arc<str>>,
    #[serde(default, with = "As::<Option<DisplayFromStr>>")]
    native_session_id: Option<NativeSessionId>,
    #[serde(default)]
    resumed: bool,
    #[serde(default)]
    warm: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct TextJson {
    pub(super) block: BlockId,
    pub(super) text: Arc<str>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolCall")]
pub(super) struct ToolCallJson {
    #[serde(rename = "tool_id", with = "As::<DisplayFromStr>")]
    id: ToolId,
    name: Arc<str>,
    #[serde(default = "other_class", with = "ToolClassJson")]
    class: ToolClass,
    input: RawJson,
    #[serde(default)]
    title: Arc<str>,
    #[serde(
        rename = "parent_tool_id",
        default,
        skip_serializing_if = "Option::is_none",
        with = "As::<Option<DisplayFromStr>>"
    )]
    parent: Option<ToolId>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolClass", rename_all = "snake_case")]
enum ToolClassJson {
    Read,
    Edit,
    Execute,
    #[serde(other)]
    Other,
}

const fn other_class() -> ToolClass {
    ToolClass::Other
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolResult")]
pub(super) struct ToolResultJson {
    #[serde(rename = "tool_id", with = "As::<DisplayFromStr>")]
    id: ToolId,
    ok: bool,
    #[serde(default)]
    output: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Plan")]
pub(super) struct PlanJson {
    #[serde(with = "As::<Vec<FromInto<PlanItemJson>>>")]
    items: Vec<PlanItem>,
}

#[derive(Serialize, Deserialize)]
struct PlanItemJson {
    text: Arc<str>,
    #[serde(default = "pending_status", with = "PlanStatusJson")]
    status: PlanStatus,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanStatus", rename_all = "snake_case")]
enum PlanStatusJson {
    InProgress,
    Completed,
    #[serde(other)]
    Pending,
}

const fn pending_status() -> PlanStatus {
    PlanStatus::Pending
}

impl From<PlanItem> for PlanItemJson {
    fn from(PlanItem { text, status }: PlanItem) -> Self {
        Self { text, status }
    }
}

impl From<PlanItemJson> for PlanItem {
    fn from(PlanItemJson { text, status }: PlanItemJson) -> Self {
        Self { text, status }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct ApprovalJson {
    #[serde(with = "As::<DisplayFromStr>")]
    approval_id: ApprovalId,
    kind: Cow<'static, str>,
    title: Arc<str>,
    #[serde(default)]
    detail: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<Arc<str>>,
    #[serde(default, with = "As::<Option<DisplayFromStr>>")]
    tool_id: Option<ToolId>,
    #[serde(default)]
    tool: Arc<str>,
    /// Follows from the kind, so it is not read.
    #[serde(skip_deserializing)]
    choices: Vec<&'static str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Arc<str>>,
    #[serde(with = "As::<Rfc3339>")]
    expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    questions: Option<Vec<QuestionJson>>,
}

impl From<&Approval> for ApprovalJson {
    fn from(approval: &Approval) -> Self {
        let Approval { id, kind, tool_id, tool_name, title, detail, diff, rules, expires_at } =
            approval.clone();
        Self {
            approval_id: id,
            kind: Cow::Borrowed(kind.as_str()),
            title,
            detail,
            diff,
            tool_id,
            tool: tool_name,
            choices: kind.choices().iter().map(|choice| choice.as_str()).collect(),
            rules,
            expires_at,
            questions: match kind {
                ApprovalKind::Tool => None,
                ApprovalKind::Question(questions) => {
                    Some(questions.iter().map(QuestionJson::from).collect())
                }
            },
        }
    }
}

impl ApprovalJson {
    /// Returns `None` for an unknown kind.
    pub(super) fn into_approval(self) -> Option<Approval> {
        let questions = self.questions.unwrap_or_default().into_iter();
        Some(Approval {
            id: self.approval_id,
            kind: match &*self.kind {
                "tool" => ApprovalKind::Tool,
                "question" => ApprovalKind::Question(questions.map(Question::from).collect()),
                _ => return None,
            },
            tool_id: self.tool_id,
            tool_name: self.tool,
            title: self.title,
            detail: self.detail,
            diff: self.diff,
            rules: self.rules,
            expires_at: self.expires_at,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Resolution")]
pub(super) struct ResolutionJson {
    #[serde(rename = "approval_id", with = "As::<DisplayFromStr>")]
    id: ApprovalId,
    #[serde(with = "VerdictJson")]
    verdict: Verdict,
    #[serde(default)]
    by: Arc<str>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Verdict", rename_all = "snake_case")]
enum VerdictJson {
    Once,
    Session,
    Always,
    Deny,
    Stop,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Notice")]
pub(super) struct NoticeJson {
    #[serde(default = "warning_level", with = "NoticeLevelJson")]
    level: NoticeLevel,
    #[serde(default)]
    code: Arc<str>,
    text: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<RawJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NoticeLevel", rename_all = "snake_case")]
enum NoticeLevelJson {
    Info,
    #[serde(other)]
    Warning,
}

const fn warning_level() -> NoticeLevel {
    NoticeLevel::Warning
}

#[derive(Serialize, Deserialize)]
pub(super) struct NativeJson {
    pub(super) name: Box<str>,
    pub(super) raw: RawJson,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FinishedJson {
    status: Cow<'static, str>,
    #[serde(default)]
    text: Arc<str>,
    #[serde(default)]
    reason: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<FailureJson>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "As::<Option<Rfc3339>>")]
    resumes_at: Option<Timestamp>,
    #[serde(default)]
    usage: UsageJson,
}

impl From<&Outcome> for FinishedJson {
    fn from(outcome: &Outcome) -> Self {
        let Outcome { status, text, reason, usage } = outcome.clone();
        let name = Cow::Borrowed(status.as_str());
        let (failure, resumes_at) = match status {
            TurnStatus::Failed(failure) => (Some(FailureJson(failure)), None),
            TurnStatus::Parked { resumes_at } => (None, Some(resumes_at)),
            TurnStatus::Completed | TurnStatus::Partial | TurnStatus::Interrupted => (None, None),
        };
        Self { status: name, text, reason, failure, resumes_at, usage: UsageJson(usage) }
    }
}

impl FinishedJson {
    /// Returns `None` for an unknown status, and for a status without its required fields.
    pub(super) fn into_outcome(self) -> Option<Outcome> {
        let status = match &*self.status {
            "completed" => TurnStatus::Completed,
            "partial" => TurnStatus::Partial,
            "interrupted" => TurnStatus::Interrupted,
            "failed" => TurnStatus::Failed(self.failure?.0),
            "parked" => TurnStatus::Parked { resumes_at: self.resumes_at? },
            _ => return None,
        };
        Some(Outcome { status, text: self.text, reason: self.reason, usage: self.usage.0 })
    }
}
