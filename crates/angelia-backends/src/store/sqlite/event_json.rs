//! The form of events on disk: a word for the kind, and JSON for the rest. Decoding is total: an
//! event that this version does not know becomes `Native` and keeps its bytes.

mod body;

use std::borrow::Cow;

use angelia_core::model::{
    ApprovalId, EventKind, Level, Notice, Plan, RawJson, Resolution, TextChannel, ToolId,
    ToolResult, Verdict,
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use self::body::{
    ApprovalBody, NativeBody, NoticeBody, PlanItemBody, ResolvedBody, StartedBody, TextBody,
    ToolCallBody, ToolResultBody,
};
use super::{
    outcome_json::{self, OutcomeBody, UsageBody},
    trouble::Trouble,
    words::word,
};

/// The format version of the bodies. Raised when a body changes incompatibly.
pub(super) const FORMAT: i64 = 1;

/// Writes the body to `out` and returns the word for the kind.
pub(super) fn encode(event: &EventKind, out: &mut Vec<u8>) -> Result<&'static str, Trouble> {
    let text_body = |block: u32, channel, text| TextBody {
        block,
        reasoning: channel == TextChannel::Reasoning,
        text: Cow::Borrowed(text),
    };
    let kind = match event {
        EventKind::Started(started) => put(out, "started", &StartedBody::of(started)),
        EventKind::Delta { block, channel, text } => {
            put(out, "delta", &text_body(*block, *channel, text))
        }
        EventKind::Block { block, channel, text } => {
            put(out, "block", &text_body(*block, *channel, text))
        }
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
    EventKind::Native { name: kind.into(), raw: kept(body) }
}

/// Returns the body unchanged or, if it is not JSON, as a JSON string.
fn kept(body: &str) -> RawJson {
    serde_json::from_str::<&RawValue>(body)
        .map(ToOwned::to_owned)
        .or_else(|_not_json| to_raw_value(body))
        .map_or_else(|_cannot_happen| RawValue::NULL.to_owned().into(), Into::into)
}

fn known(kind: &str, body: &str) -> Result<EventKind, Trouble> {
    Ok(match kind {
        "started" => EventKind::Started(get::<StartedBody<'_>>(body)?.into_started()),
        "delta" => {
            let TextBody { block, reasoning, text } = get(body)?;
            EventKind::Delta { block, channel: channel(reasoning), text: text.into() }
        }
        "block" => {
            let TextBody { block, reasoning, text } = get(body)?;
            EventKind::Block { block, channel: channel(reasoning), text: text.into() }
        }
        "tool_call" => EventKind::ToolCall(get::<ToolCallBody<'_>>(body)?.into_call()?),
        "tool_result" => {
            let ToolResultBody { id, ok, output } = get(body)?;
            EventKind::ToolResult(ToolResult { id: ToolId::new(id), ok, output: output.into() })
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
            EventKind::Native { name: name.into(), raw: raw.to_owned().into() }
        }
        other => return Err(Trouble::Unreadable(format!("unknown kind `{other}`"))),
    })
}

fn get<'a, T: Deserialize<'a>>(body: &'a str) -> serde_json::Result<T> {
    serde_json::from_str(body)
}

const fn channel(reasoning: bool) -> TextChannel {
    if reasoning { TextChannel::Reasoning } else { TextChannel::Answer }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::Status;

    use super::*;

    #[test]
    fn deltas_can_be_kept_too() {
        let delta =
            EventKind::Delta { block: 1, channel: TextChannel::Answer, text: "piece".into() };
        let mut body = Vec::new();
        let kind = encode(&delta, &mut body).unwrap();
        let read = decode(FORMAT, kind, std::str::from_utf8(&body).unwrap());
        assert_eq!(format!("{read:?}"), format!("{delta:?}"));
    }

    /// Older versions did not record the context window, and agents often do not report it.
    #[test]
    fn usage_of_before_the_context_was_read_is_as_it_was() {
        let body = r#"{"input":1,"output":2,"cache_read":3,"cache_write":4}"#;
        let EventKind::Usage(usage) = decode(FORMAT, "usage", body) else {
            panic!("{body}");
        };
        assert_eq!((usage.input_tokens, usage.context), (1, None));
        let mut again = Vec::new();
        encode(&EventKind::Usage(usage), &mut again).unwrap();
        assert_eq!(std::str::from_utf8(&again).unwrap(), body);
    }

    #[test]
    fn what_is_not_known_keeps_its_bytes() {
        let cases = [
            (FORMAT, "hologram", r#"{ "depth" : 3 }"#, r#"{ "depth" : 3 }"#),
            // A known kind with a body of another shape, or of a later format.
            (FORMAT, "notice", r#"{"level":"shout"}"#, r#"{"level":"shout"}"#),
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
        for body in ["", "{}", "[1]", r#"{"status":"dissolved"}"#, r#"{"status":"parked"}"#] {
            let EventKind::Finished(outcome) = decode(FORMAT + 1, "finished", body) else {
                panic!("{body}");
            };
            assert!(matches!(outcome.status, Status::Failed(_)), "{body}");
        }
    }
}
