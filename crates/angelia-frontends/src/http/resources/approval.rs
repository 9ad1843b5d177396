//! The JSON type of an approval: the question, and the decision.

use std::path::PathBuf;

use angelia_core::model::{
    ApprovalId, ApprovalKind, ApprovalRecord, Question, Resolution, SessionId, SessionRecord,
    ToolId, TurnId,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::{As, DisplayFromStr};

use crate::event_json::{QuestionJson, time::Rfc3339};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Approval")]
pub struct ApprovalResource {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: ApprovalId,
    /// The start of the id that no other approval has; in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub session_id: SessionId,
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub turn_id: TurnId,
    /// `tool` or `question`.
    pub kind: String,
    /// The agent's name of the tool.
    pub tool: String,
    pub title: String,
    pub detail: String,
    /// A unified diff of the changes of an edit. Lines that begin with `\` name the parts that it
    /// does not show.
    #[serde(default)]
    pub diff: Option<String>,
    /// The session that asks; `null` if it has been deleted.
    #[serde(default)]
    pub session: Option<ApprovalSession>,
    pub tool_id: Option<String>,
    /// The verdicts that make sense.
    pub choices: Vec<String>,
    /// The rules that `session` and `always` can grant: first exactly this call, then wider rules
    /// that the agent suggests. A decision that names none takes the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// For a `question`: the questions to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub questions: Option<Vec<QuestionJson>>,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub asked_at: Timestamp,
    /// From then on it counts as declined.
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub expires_at: Timestamp,
    /// `null` until it is decided.
    pub decided: Option<ResolutionResource>,
}

/// The session of an approval, as far as a person needs it to decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalSession {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: SessionId,
    pub title: Option<String>,
    pub profile: String,
    pub cwd: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Decided")]
pub struct ResolutionResource {
    pub verdict: String,
    /// The decider: `owner`, `restart`, `turn ended` …
    pub by: String,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub at: Timestamp,
}

impl From<&SessionRecord> for ApprovalSession {
    fn from(session: &SessionRecord) -> Self {
        Self {
            id: session.id,
            title: session.title.as_deref().map(str::to_owned),
            profile: session.spec.profile.to_string(),
            cwd: session.spec.cwd.clone(),
        }
    }
}

impl ApprovalResource {
    pub fn new(record: &ApprovalRecord, session: Option<&SessionRecord>) -> Self {
        let approval = &record.approval;
        let choices = approval.kind.choices().iter();
        Self {
            id: approval.id,
            short_id: None,
            session_id: record.session,
            turn_id: record.turn,
            kind: approval.kind.as_str().to_owned(),
            tool: approval.tool_name.to_string(),
            title: approval.title.to_string(),
            detail: approval.detail.to_string(),
            diff: approval.diff.as_deref().map(str::to_owned),
            session: session.map(ApprovalSession::from),
            tool_id: approval.tool_id.as_ref().map(ToolId::as_str).map(str::to_owned),
            choices: choices.map(|choice| choice.as_str().to_owned()).collect(),
            rules: approval.rules.iter().map(ToString::to_string).collect(),
            questions: match &approval.kind {
                ApprovalKind::Tool => None,
                ApprovalKind::Question(questions) => {
                    Some(questions.iter().map(QuestionJson::from).collect())
                }
            },
            asked_at: record.requested_at,
            expires_at: approval.expires_at,
            decided: record.resolution.as_ref().map(ResolutionResource::from),
        }
    }

    pub fn approval_kind(&self) -> ApprovalKind {
        match &self.questions {
            None => ApprovalKind::Tool,
            Some(questions) => {
                ApprovalKind::Question(questions.iter().cloned().map(Question::from).collect())
            }
        }
    }
}

impl From<&(Resolution, Timestamp)> for ResolutionResource {
    fn from((resolution, at): &(Resolution, Timestamp)) -> Self {
        Self {
            verdict: resolution.verdict.as_str().to_owned(),
            by: resolution.by.to_string(),
            at: *at,
        }
    }
}
