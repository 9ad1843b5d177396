//! The JSON bodies of events on disk, and their conversion from and to the model.

use std::borrow::Cow;

use angelia_core::model::{
    AgentStart, Approval, ApprovalId, ApprovalKind, NativeSessionId, Notice, PlanItem, PlanStatus,
    Question, QuestionOption, Resolution, ToolCall, ToolClass, ToolId, ToolResult,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::super::{columns::parse_variant, error::SqliteError};

type CowStr<'a> = Cow<'a, str>;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StartedBody<'a> {
    #[serde(borrow)]
    pub(super) profile: CowStr<'a>,
    #[serde(borrow)]
    pub(super) executor: CowStr<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<CowStr<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) native: Option<CowStr<'a>>,
    pub(super) resumed: bool,
    pub(super) warm: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TextBody<'a> {
    pub(super) block: u32,
    pub(super) reasoning: bool,
    #[serde(borrow)]
    pub(super) text: CowStr<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ToolCallBody<'a> {
    #[serde(borrow)]
    pub(super) id: CowStr<'a>,
    #[serde(borrow)]
    pub(super) name: CowStr<'a>,
    #[serde(borrow)]
    pub(super) class: CowStr<'a>,
    #[serde(borrow)]
    pub(super) title: CowStr<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<CowStr<'a>>,
    #[serde(borrow)]
    pub(super) input: &'a RawValue,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ToolResultBody<'a> {
    #[serde(borrow)]
    pub(super) id: CowStr<'a>,
    pub(super) ok: bool,
    #[serde(borrow)]
    pub(super) output: CowStr<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlanItemBody<'a> {
    #[serde(borrow)]
    pub(super) text: CowStr<'a>,
    #[serde(borrow)]
    pub(super) status: CowStr<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ApprovalBody<'a> {
    pub(super) id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tool_id: Option<CowStr<'a>>,
    #[serde(borrow)]
    pub(super) tool_name: CowStr<'a>,
    #[serde(borrow)]
    pub(super) title: CowStr<'a>,
    #[serde(borrow)]
    pub(super) detail: CowStr<'a>,
    pub(super) expires_at: Timestamp,
    /// Present if the approval is a question with typed answers.
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    pub(super) questions: Option<Vec<QuestionBody<'a>>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct QuestionBody<'a> {
    #[serde(borrow)]
    pub(super) text: CowStr<'a>,
    #[serde(borrow)]
    pub(super) header: CowStr<'a>,
    /// Label and description.
    pub(super) options: Vec<(CowStr<'a>, CowStr<'a>)>,
    pub(super) multiple: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ResolvedBody<'a> {
    pub(super) id: Uuid,
    #[serde(borrow)]
    pub(super) verdict: CowStr<'a>,
    #[serde(borrow)]
    pub(super) by: CowStr<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NoticeBody<'a> {
    #[serde(borrow)]
    pub(super) level: CowStr<'a>,
    #[serde(borrow)]
    pub(super) code: CowStr<'a>,
    #[serde(borrow)]
    pub(super) text: CowStr<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NativeBody<'a> {
    #[serde(borrow)]
    pub(super) name: CowStr<'a>,
    #[serde(borrow)]
    pub(super) raw: &'a RawValue,
}

impl<'a> StartedBody<'a> {
    pub(super) fn of(started: &'a AgentStart) -> Self {
        let native = started.native_session_id.as_ref();
        Self {
            profile: (&*started.profile).into(),
            executor: (&*started.executor).into(),
            model: started.model.as_deref().map(Cow::Borrowed),
            native: native.map(|native| native.as_str().into()),
            resumed: started.resumed,
            warm: started.warm,
        }
    }

    pub(super) fn into_started(self) -> AgentStart {
        AgentStart {
            profile: self.profile.into(),
            executor: self.executor.into(),
            model: self.model.map(Into::into),
            native_session_id: self.native.map(NativeSessionId::new),
            resumed: self.resumed,
            warm: self.warm,
        }
    }
}

impl<'a> ToolCallBody<'a> {
    pub(super) fn of(call: &'a ToolCall) -> Self {
        Self {
            id: call.id.as_str().into(),
            name: (&*call.name).into(),
            class: call.class.as_str().into(),
            title: (&*call.title).into(),
            parent: call.parent.as_ref().map(|parent| parent.as_str().into()),
            input: &call.input,
        }
    }

    pub(super) fn into_call(self) -> Result<ToolCall, SqliteError> {
        const CLASSES: [ToolClass; 4] =
            [ToolClass::Read, ToolClass::Edit, ToolClass::Execute, ToolClass::Other];
        Ok(ToolCall {
            id: ToolId::new(self.id),
            name: self.name.into(),
            class: parse_variant(&CLASSES, ToolClass::as_str, &self.class)?,
            title: self.title.into(),
            parent: self.parent.map(ToolId::new),
            input: self.input.to_owned().into(),
        })
    }
}

impl<'a> ToolResultBody<'a> {
    pub(super) fn of(result: &'a ToolResult) -> Self {
        Self { id: result.id.as_str().into(), ok: result.ok, output: (&*result.output).into() }
    }
}

impl<'a> PlanItemBody<'a> {
    pub(super) fn of(item: &'a PlanItem) -> Self {
        Self { text: (&*item.text).into(), status: item.status.as_str().into() }
    }

    pub(super) fn into_item(self) -> Result<PlanItem, SqliteError> {
        const STATUSES: [PlanStatus; 3] =
            [PlanStatus::Pending, PlanStatus::InProgress, PlanStatus::Completed];
        Ok(PlanItem {
            text: self.text.into(),
            status: parse_variant(&STATUSES, PlanStatus::as_str, &self.status)?,
        })
    }
}

impl<'a> ApprovalBody<'a> {
    pub(super) fn of(approval: &'a Approval) -> Self {
        Self {
            id: approval.id.as_uuid(),
            tool_id: approval.tool_id.as_ref().map(|id| id.as_str().into()),
            tool_name: (&*approval.tool_name).into(),
            expires_at: approval.expires_at,
            title: (&*approval.title).into(),
            detail: (&*approval.detail).into(),
            questions: match &approval.kind {
                ApprovalKind::Tool => None,
                ApprovalKind::Question(questions) => {
                    Some(questions.iter().map(QuestionBody::of).collect())
                }
            },
        }
    }

    pub(super) fn into_approval(self) -> Approval {
        Approval {
            id: ApprovalId::from_uuid(self.id),
            kind: self.questions.map_or(ApprovalKind::Tool, |questions| {
                let questions = questions.into_iter().map(QuestionBody::into_question);
                ApprovalKind::Question(questions.collect())
            }),
            tool_id: self.tool_id.map(ToolId::new),
            tool_name: self.tool_name.into(),
            title: self.title.into(),
            detail: self.detail.into(),
            expires_at: self.expires_at,
        }
    }
}

impl<'a> QuestionBody<'a> {
    pub(super) fn of(question: &'a Question) -> Self {
        let options = question.options.iter();
        Self {
            text: (&*question.text).into(),
            header: (&*question.header).into(),
            options: options
                .map(|option| ((&*option.label).into(), (&*option.description).into()))
                .collect(),
            multiple: question.multiple,
        }
    }

    pub(super) fn into_question(self) -> Question {
        let options = self.options.into_iter();
        Question {
            text: self.text.into(),
            header: self.header.into(),
            options: options
                .map(|(label, description)| QuestionOption {
                    label: label.into(),
                    description: description.into(),
                })
                .collect(),
            multiple: self.multiple,
        }
    }
}

impl<'a> ResolvedBody<'a> {
    pub(super) fn of(resolution: &'a Resolution) -> Self {
        Self {
            id: resolution.id.as_uuid(),
            verdict: resolution.verdict.as_str().into(),
            by: (&*resolution.by).into(),
        }
    }
}

impl<'a> NoticeBody<'a> {
    pub(super) fn of(notice: &'a Notice) -> Self {
        Self {
            level: notice.level.as_str().into(),
            code: (&*notice.code).into(),
            text: (&*notice.text).into(),
        }
    }
}
