//! Events on disk: a word for the kind, a JSON object for the rest. Reading is total: what this
//! version does not know becomes `Native` and keeps its bytes.

use std::borrow::Cow;

use angelia_core::model::{
    Approval, ApprovalId, ApprovalKind, EventKind, Level, NativeSessionId, Notice, Plan, PlanItem,
    PlanStatus, Question, QuestionOption, RawJson, Resolution, Started, TextChannel, ToolCall,
    ToolClass, ToolId, ToolResult, Verdict,
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

use super::{
    outcome_json::{self, OutcomeBody, UsageBody},
    trouble::Trouble,
    words::word,
};

/// Of the bodies below; counted up when one changes in a way that older ones do not read as.
pub(super) const FORMAT: i64 = 1;

type Text<'a> = Cow<'a, str>;

#[derive(Debug, Serialize, Deserialize)]
struct StartedBody<'a> {
    #[serde(borrow)]
    profile: Text<'a>,
    #[serde(borrow)]
    executor: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    native: Option<Text<'a>>,
    resumed: bool,
    warm: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct TextBody<'a> {
    block: u32,
    reasoning: bool,
    #[serde(borrow)]
    text: Text<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ToolCallBody<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    class: Text<'a>,
    #[serde(borrow)]
    title: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Text<'a>>,
    #[serde(borrow)]
    input: &'a RawValue,
}

#[derive(Debug, Serialize, Deserialize)]
struct ToolResultBody<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    ok: bool,
    #[serde(borrow)]
    output: Text<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PlanItemBody<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ApprovalBody<'a> {
    id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_id: Option<Text<'a>>,
    #[serde(borrow)]
    title: Text<'a>,
    #[serde(borrow)]
    detail: Text<'a>,
    /// Present where typed answers are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    questions: Option<Vec<QuestionBody<'a>>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct QuestionBody<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    header: Text<'a>,
    /// Label and description.
    options: Vec<(Text<'a>, Text<'a>)>,
    multiple: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct ResolvedBody<'a> {
    id: Uuid,
    #[serde(borrow)]
    verdict: Text<'a>,
    #[serde(borrow)]
    by: Text<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct NoticeBody<'a> {
    #[serde(borrow)]
    level: Text<'a>,
    #[serde(borrow)]
    code: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct NativeBody<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    raw: &'a RawValue,
}

/// Writes the body to `out` and returns the word for the kind.
pub(super) fn encode(event: &EventKind, out: &mut Vec<u8>) -> Result<&'static str, Trouble> {
    let text_body = |block: u32, channel, text| TextBody {
        block,
        reasoning: channel == TextChannel::Reasoning,
        text: Cow::Borrowed(text),
    };
    let kind = match event {
        EventKind::Started(started) => put(out, "started", &StartedBody::of(started)),
        EventKind::Delta {
            block,
            channel,
            text,
        } => put(out, "delta", &text_body(*block, *channel, text)),
        EventKind::Block {
            block,
            channel,
            text,
        } => put(out, "block", &text_body(*block, *channel, text)),
        EventKind::ToolCall(call) => put(out, "tool_call", &ToolCallBody::of(call)),
        EventKind::ToolResult(result) => put(out, "tool_result", &ToolResultBody::of(result)),
        EventKind::Plan(plan) => {
            let items: Vec<_> = plan.items.iter().map(PlanItemBody::of).collect();
            put(out, "plan", &items)
        }
        EventKind::Approval(approval) => put(out, "approval", &ApprovalBody::of(approval)),
        EventKind::Resolved(resolution) => put(out, "resolved", &ResolvedBody::of(resolution)),
        EventKind::Usage(usage) => put(out, "usage", &UsageBody::of(usage)),
        EventKind::Notice(notice) => put(out, "notice", &NoticeBody::of(notice)),
        EventKind::Native { name, raw } => {
            let name = Cow::Borrowed(&**name);
            put(out, "native", &NativeBody { name, raw })
        }
        EventKind::Finished(outcome) => put(out, "finished", &OutcomeBody::of(outcome)),
    };
    Ok(kind?)
}

fn put(
    out: &mut Vec<u8>,
    kind: &'static str,
    body: &impl Serialize,
) -> serde_json::Result<&'static str> {
    serde_json::to_writer(out, body)?;
    Ok(kind)
}

pub(super) fn decode(format: i64, kind: &str, body: &str) -> EventKind {
    if kind == "finished" {
        return EventKind::Finished(outcome_json::decode(body));
    }
    if format <= FORMAT
        && let Ok(event) = known(kind, body)
    {
        return event;
    }
    EventKind::Native {
        name: kind.into(),
        raw: kept(body),
    }
}

/// The body as it is; if it is not even JSON, as a JSON string.
fn kept(body: &str) -> RawJson {
    serde_json::from_str::<&RawValue>(body)
        .map(ToOwned::to_owned)
        .or_else(|_not_json| to_raw_value(body))
        .map_or_else(
            |_cannot_happen| RawValue::NULL.to_owned().into(),
            Into::into,
        )
}

fn known(kind: &str, body: &str) -> Result<EventKind, Trouble> {
    Ok(match kind {
        "started" => EventKind::Started(get::<StartedBody<'_>>(body)?.into_started()),
        "delta" => {
            let TextBody {
                block,
                reasoning,
                text,
            } = get(body)?;
            EventKind::Delta {
                block,
                channel: channel(reasoning),
                text: text.into(),
            }
        }
        "block" => {
            let TextBody {
                block,
                reasoning,
                text,
            } = get(body)?;
            EventKind::Block {
                block,
                channel: channel(reasoning),
                text: text.into(),
            }
        }
        "tool_call" => EventKind::ToolCall(get::<ToolCallBody<'_>>(body)?.into_call()?),
        "tool_result" => {
            let ToolResultBody { id, ok, output } = get(body)?;
            EventKind::ToolResult(ToolResult {
                id: ToolId::new(id),
                ok,
                output: output.into(),
            })
        }
        "plan" => EventKind::Plan(Plan {
            items: get::<Vec<PlanItemBody<'_>>>(body)?
                .into_iter()
                .map(PlanItemBody::into_item)
                .collect::<Result<_, _>>()?,
        }),
        "approval" => EventKind::Approval(get::<ApprovalBody<'_>>(body)?.into_approval()),
        "resolved" => {
            let ResolvedBody { id, verdict, by } = get(body)?;
            EventKind::Resolved(Resolution {
                id: ApprovalId::from_uuid(id),
                verdict: word(&Verdict::ALL, Verdict::as_str, &verdict)?,
                by: by.into(),
            })
        }
        "usage" => EventKind::Usage(get::<UsageBody<'_>>(body)?.into_usage()),
        "notice" => {
            let NoticeBody { level, code, text } = get(body)?;
            let level = word(&[Level::Info, Level::Warning], Level::as_str, &level)?;
            EventKind::Notice(Notice::new(level, code, text))
        }
        "native" => {
            let NativeBody { name, raw } = get(body)?;
            EventKind::Native {
                name: name.into(),
                raw: raw.to_owned().into(),
            }
        }
        other => return Err(Trouble::Unreadable(format!("unknown kind `{other}`"))),
    })
}

fn get<'a, T: Deserialize<'a>>(body: &'a str) -> serde_json::Result<T> {
    serde_json::from_str(body)
}

const fn channel(reasoning: bool) -> TextChannel {
    if reasoning {
        TextChannel::Reasoning
    } else {
        TextChannel::Answer
    }
}

impl<'a> StartedBody<'a> {
    fn of(started: &'a Started) -> Self {
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

    fn into_started(self) -> Started {
        Started {
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
    fn of(call: &'a ToolCall) -> Self {
        Self {
            id: call.id.as_str().into(),
            name: (&*call.name).into(),
            class: call.class.as_str().into(),
            title: (&*call.title).into(),
            parent: call.parent.as_ref().map(|parent| parent.as_str().into()),
            input: &call.input,
        }
    }

    fn into_call(self) -> Result<ToolCall, Trouble> {
        const CLASSES: [ToolClass; 4] = [
            ToolClass::Read,
            ToolClass::Edit,
            ToolClass::Execute,
            ToolClass::Other,
        ];
        Ok(ToolCall {
            id: ToolId::new(self.id),
            name: self.name.into(),
            class: word(&CLASSES, ToolClass::as_str, &self.class)?,
            title: self.title.into(),
            parent: self.parent.map(ToolId::new),
            input: self.input.to_owned().into(),
        })
    }
}

impl<'a> ToolResultBody<'a> {
    fn of(result: &'a ToolResult) -> Self {
        Self {
            id: result.id.as_str().into(),
            ok: result.ok,
            output: (&*result.output).into(),
        }
    }
}

impl<'a> PlanItemBody<'a> {
    fn of(item: &'a PlanItem) -> Self {
        Self {
            text: (&*item.text).into(),
            status: item.status.as_str().into(),
        }
    }

    fn into_item(self) -> Result<PlanItem, Trouble> {
        const STATUSES: [PlanStatus; 3] = [
            PlanStatus::Pending,
            PlanStatus::InProgress,
            PlanStatus::Completed,
        ];
        Ok(PlanItem {
            text: self.text.into(),
            status: word(&STATUSES, PlanStatus::as_str, &self.status)?,
        })
    }
}

impl<'a> ApprovalBody<'a> {
    fn of(approval: &'a Approval) -> Self {
        Self {
            id: approval.id.as_uuid(),
            tool_id: approval.tool_id.as_ref().map(|id| id.as_str().into()),
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

    fn into_approval(self) -> Approval {
        Approval {
            id: ApprovalId::from_uuid(self.id),
            kind: self.questions.map_or(ApprovalKind::Tool, |questions| {
                let questions = questions.into_iter().map(QuestionBody::into_question);
                ApprovalKind::Question(questions.collect())
            }),
            tool_id: self.tool_id.map(ToolId::new),
            title: self.title.into(),
            detail: self.detail.into(),
        }
    }
}

impl<'a> QuestionBody<'a> {
    fn of(question: &'a Question) -> Self {
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

    fn into_question(self) -> Question {
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
    fn of(resolution: &'a Resolution) -> Self {
        Self {
            id: resolution.id.as_uuid(),
            verdict: resolution.verdict.as_str().into(),
            by: (&*resolution.by).into(),
        }
    }
}

impl<'a> NoticeBody<'a> {
    fn of(notice: &'a Notice) -> Self {
        Self {
            level: notice.level.as_str().into(),
            code: (&*notice.code).into(),
            text: (&*notice.text).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::Status;

    use super::*;

    #[test]
    fn deltas_can_be_kept_too() {
        let delta = EventKind::Delta {
            block: 1,
            channel: TextChannel::Answer,
            text: "piece".into(),
        };
        let mut body = Vec::new();
        let kind = encode(&delta, &mut body).unwrap();
        let read = decode(FORMAT, kind, std::str::from_utf8(&body).unwrap());
        assert_eq!(format!("{read:?}"), format!("{delta:?}"));
    }

    #[test]
    fn what_is_not_known_keeps_its_bytes() {
        let cases = [
            (
                FORMAT,
                "hologram",
                r#"{ "depth" : 3 }"#,
                r#"{ "depth" : 3 }"#,
            ),
            // A known word with a body of another shape, or of a later format.
            (
                FORMAT,
                "notice",
                r#"{"level":"shout"}"#,
                r#"{"level":"shout"}"#,
            ),
            (FORMAT + 1, "plan", "[]", "[]"),
            (FORMAT, "plan", "[", r#""[""#),
            (FORMAT, "", "", r#""""#),
        ];
        for (format, kind, body, kept) in cases {
            let EventKind::Native { name, raw } = decode(format, kind, body) else {
                panic!("{kind} {body}");
            };
            assert_eq!((&*name, raw.get()), (kind, kept));
        }
    }

    proptest::proptest! {
        #[test]
        fn anything_can_be_read(
            format in -1..3_i64,
            kind in "started|delta|block|tool_call|tool_result|plan|approval|resolved|usage|notice|native|finished|.*",
            body in r#"[\[\]{}",:a-z0-9 ]{0,40}|.*"#,
        ) {
            let event = decode(format, &kind, &body);
            let mut again = Vec::new();
            encode(&event, &mut again).unwrap();
        }
    }

    #[test]
    fn a_finished_turn_stays_finished() {
        for body in [
            "",
            "{}",
            "[1]",
            r#"{"status":"dissolved"}"#,
            r#"{"status":"parked"}"#,
        ] {
            let EventKind::Finished(outcome) = decode(FORMAT + 1, "finished", body) else {
                panic!("{body}");
            };
            assert!(matches!(outcome.status, Status::Failed(_)), "{body}");
        }
    }
}
