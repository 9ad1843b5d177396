//! The JSON bodies of events on disk, each one derived for both directions.

use std::sync::Arc;

use angelia_core::model::{
    AgentStart, Approval, ApprovalId, ApprovalKind, BlockId, NativeSessionId, Notice, NoticeLevel,
    PlanItem, PlanStatus, Question, QuestionOption, RawJson, Resolution, TextChannel, ToolCall,
    ToolClass, ToolId, ToolResult, Verdict,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr, FromInto};

#[derive(Serialize, Deserialize)]
#[serde(remote = "AgentStart")]
pub(super) struct StartedBody {
    profile: Arc<str>,
    executor: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Arc<str>>,
    #[serde(
        rename = "native",
        default,
        skip_serializing_if = "Option::is_none",
        with = "As::<Option<DisplayFromStr>>"
    )]
    native_session_id: Option<NativeSessionId>,
    resumed: bool,
    warm: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct TextBody {
    pub(super) block: BlockId,
    #[serde(rename = "reasoning", with = "As::<FromInto<IsReasoning>>")]
    pub(super) channel: TextChannel,
    pub(super) text: Arc<str>,
}

impl TextBody {
    pub(super) fn new(block: BlockId, channel: TextChannel, text: &Arc<str>) -> Self {
        Self { block, channel, text: Arc::clone(text) }
    }
}

/// A text channel as a flag.
#[derive(Serialize, Deserialize)]
struct IsReasoning(bool);

impl From<TextChannel> for IsReasoning {
    fn from(channel: TextChannel) -> Self {
        Self(channel == TextChannel::Reasoning)
    }
}

impl From<IsReasoning> for TextChannel {
    fn from(IsReasoning(reasoning): IsReasoning) -> Self {
        if reasoning { Self::Reasoning } else { Self::Answer }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolCall")]
pub(super) struct ToolCallBody {
    #[serde(with = "As::<DisplayFromStr>")]
    id: ToolId,
    name: Arc<str>,
    #[serde(with = "ToolClassBody")]
    class: ToolClass,
    title: Arc<str>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "As::<Option<DisplayFromStr>>"
    )]
    parent: Option<ToolId>,
    input: RawJson,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolClass", rename_all = "snake_case")]
enum ToolClassBody {
    Read,
    Edit,
    Execute,
    Other,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolResult")]
pub(super) struct ToolResultBody {
    #[serde(with = "As::<DisplayFromStr>")]
    id: ToolId,
    ok: bool,
    output: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct PlanItemBody {
    text: Arc<str>,
    #[serde(with = "PlanStatusBody")]
    status: PlanStatus,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanStatus", rename_all = "snake_case")]
enum PlanStatusBody {
    Pending,
    InProgress,
    Completed,
}

impl From<PlanItem> for PlanItemBody {
    fn from(PlanItem { text, status }: PlanItem) -> Self {
        Self { text, status }
    }
}

impl From<PlanItemBody> for PlanItem {
    fn from(PlanItemBody { text, status }: PlanItemBody) -> Self {
        Self { text, status }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Approval")]
pub(super) struct ApprovalBody {
    #[serde(with = "As::<DisplayFromStr>")]
    id: ApprovalId,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "As::<Option<DisplayFromStr>>"
    )]
    tool_id: Option<ToolId>,
    tool_name: Arc<str>,
    title: Arc<str>,
    detail: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Arc<str>>,
    expires_at: Timestamp,
    /// Present if the approval is a question with typed answers.
    #[serde(
        rename = "questions",
        default = "tool_kind",
        skip_serializing_if = "is_tool",
        with = "As::<FromInto<QuestionsBody>>"
    )]
    kind: ApprovalKind,
}

const fn tool_kind() -> ApprovalKind {
    ApprovalKind::Tool
}

const fn is_tool(kind: &ApprovalKind) -> bool {
    matches!(kind, ApprovalKind::Tool)
}

#[derive(Serialize, Deserialize)]
struct QuestionsBody(Option<Vec<QuestionBody>>);

#[derive(Serialize, Deserialize)]
struct QuestionBody {
    text: Arc<str>,
    header: Arc<str>,
    options: Vec<OptionBody>,
    multiple: bool,
}

/// Label and description.
#[derive(Serialize, Deserialize)]
struct OptionBody(Arc<str>, Arc<str>);

impl From<ApprovalKind> for QuestionsBody {
    fn from(kind: ApprovalKind) -> Self {
        Self(match kind {
            ApprovalKind::Tool => None,
            ApprovalKind::Question(questions) => {
                Some(questions.iter().cloned().map(Into::into).collect())
            }
        })
    }
}

impl From<QuestionsBody> for ApprovalKind {
    fn from(QuestionsBody(questions): QuestionsBody) -> Self {
        questions.map_or(Self::Tool, |questions| {
            Self::Question(questions.into_iter().map(Into::into).collect())
        })
    }
}

impl From<Question> for QuestionBody {
    fn from(Question { text, header, options, multiple }: Question) -> Self {
        let option = |option: QuestionOption| OptionBody(option.label, option.description);
        Self { text, header, options: options.into_iter().map(option).collect(), multiple }
    }
}

impl From<QuestionBody> for Question {
    fn from(QuestionBody { text, header, options, multiple }: QuestionBody) -> Self {
        let option = |OptionBody(label, description)| QuestionOption { label, description };
        Self { text, header, options: options.into_iter().map(option).collect(), multiple }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Resolution")]
pub(super) struct ResolvedBody {
    #[serde(with = "As::<DisplayFromStr>")]
    id: ApprovalId,
    #[serde(with = "VerdictBody")]
    verdict: Verdict,
    by: Arc<str>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Verdict", rename_all = "snake_case")]
enum VerdictBody {
    Once,
    Session,
    Always,
    Deny,
    Stop,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Notice")]
pub(super) struct NoticeBody {
    #[serde(with = "NoticeLevelBody")]
    level: NoticeLevel,
    code: Arc<str>,
    text: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<RawJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NoticeLevel", rename_all = "snake_case")]
enum NoticeLevelBody {
    Info,
    Warning,
}

#[derive(Serialize, Deserialize)]
pub(super) struct NativeBody {
    pub(super) name: Box<str>,
    pub(super) raw: RawJson,
}
