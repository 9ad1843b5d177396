//! The form of events on disk: a word for the kind, and JSON for the rest. Decoding is total: an
//! event that this version does not know becomes `Native` and keeps its bytes.

mod body;

use std::borrow::Cow;

use angelia_core::model::{
    ApprovalId, EventKind, Notice, NoticeLevel, Plan, RawJson, Resolution, TextChannel, ToolId,
    ToolResult, Verdict,
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use self::body::{
    ApprovalBody, NativeBody, NoticeBody, PlanItemBody, ResolvedBody, StartedBody, TextBody,
    ToolCallBody, ToolResultBody,
};
use super::{
    columns::parse_variant,
    error::SqliteError,
    outcome_json::{self, OutcomeBody, UsageBody},
};

/// The format version of the bodies. Raised when a body changes incompatibly.
pub(super) const FORMAT_VERSION: i64 = 1;

/// Writes the body to `out` and returns the word for the kind.
pub(super) fn encode(event: &EventKind, out: &mut Vec<u8>) -> Result<&'static str, SqliteError> {
    let text_body = |block: u32, channel, text| TextBody {
        block,
        reasoning: channel == TextChannel::Reasoning,
        text: Cow::Borrowed(text),
    };
    let kind = match event {
        EventKind::Started(started) => encode_body(out, "started", &StartedBody::of(started)),
        EventKind::Delta { block, channel, text } => {
            encode_body(out, "delta", &text_body(*block, *channel, text))
        }
        EventKind::Block { block, channel, text } => {
            encode_body(out, "block", &text_body(*block, *channel, text))
        }
        EventKind::ToolCall(call) => encode_body(out, "tool_call", &ToolCallBody::of(call)),
        EventKind::ToolResult(result) => {
            encode_body(out, "tool_result", &ToolResultBody::of(result))
        }
        EventKind::Plan(plan) => {
            let items: Vec<_> = plan.items.iter().map(PlanItemBody::of).collect();
            encode_body(out, "plan", &items)
        }
        EventKind::Approval(approval) => encode_body(out, "approval", &ApprovalBody::of(approval)),
        EventKind::Resolved(resolution) => {
            encode_body(out, "resolved", &ResolvedBody::of(resolution))
        }
        EventKind::Usage(usage) => encode_body(out, "usage", &UsageBody::of(usage)),
        EventKind::Notice(notice) => encode_body(out, "notice", &NoticeBody::of(notice)),
        EventKind::Native { name, raw } => {
            let name = Cow::Borrowed(&**name);
            encode_body(out, "native", &NativeBody { name, raw })
        }
        EventKind::Finished(outcome) => encode_body(out, "finished", &OutcomeBody::of(outcome)),
    };
    Ok(kind?)
}

fn encode_body(
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
    if format <= FORMAT_VERSION
        && let Ok(event) = decode_known(kind, body)
    {
        return event;
    }
    EventKind::Native { name: kind.into(), raw: raw_or_string(body) }
}

/// Returns the body unchanged or, if it is not JSON, as a JSON string.
fn raw_or_string(body: &str) -> RawJson {
    serde_json::from_str::<&RawValue>(body)
        .map(ToOwned::to_owned)
        .or_else(|_not_json| to_raw_value(body))
        .map_or_else(|_cannot_happen| RawValue::NULL.to_owned().into(), Into::into)
}

fn decode_known(kind: &str, body: &str) -> Result<EventKind, SqliteError> {
    Ok(match kind {
        "started" => EventKind::Started(decode_body::<StartedBody<'_>>(body)?.into_started()),
        "delta" => {
            let TextBody { block, reasoning, text } = decode_body(body)?;
            EventKind::Delta { block, channel: text_channel(reasoning), text: text.into() }
        }
        "block" => {
            let TextBody { block, reasoning, text } = decode_body(body)?;
            EventKind::Block { block, channel: text_channel(reasoning), text: text.into() }
        }
        "tool_call" => EventKind::ToolCall(decode_body::<ToolCallBody<'_>>(body)?.into_call()?),
        "tool_result" => {
            let ToolResultBody { id, ok, output } = decode_body(body)?;
            EventKind::ToolResult(ToolResult { id: ToolId::new(id), ok, output: output.into() })
        }
        "plan" => EventKind::Plan(Plan {
            items: decode_body::<Vec<PlanItemBody<'_>>>(body)?
                .into_iter()
                .map(PlanItemBody::into_item)
                .collect::<Result<_, _>>()?,
        }),
        "approval" => EventKind::Approval(decode_body::<ApprovalBody<'_>>(body)?.into_approval()),
        "resolved" => {
            let ResolvedBody { id, verdict, by } = decode_body(body)?;
            EventKind::Resolved(Resolution {
                id: ApprovalId::from_uuid(id),
                verdict: parse_variant(&Verdict::ALL, Verdict::as_str, &verdict)?,
                by: by.into(),
            })
        }
        "usage" => EventKind::Usage(decode_body::<UsageBody<'_>>(body)?.into_usage()),
        "notice" => {
            let NoticeBody { level, code, text } = decode_body(body)?;
            let level = parse_variant(
                &[NoticeLevel::Info, NoticeLevel::Warning],
                NoticeLevel::as_str,
                &level,
            )?;
            EventKind::Notice(Notice::new(level, code, text))
        }
        "native" => {
            let NativeBody { name, raw } = decode_body(body)?;
            EventKind::Native { name: name.into(), raw: raw.to_owned().into() }
        }
        other => return Err(SqliteError::Unreadable(format!("unknown kind `{other}`"))),
    })
}

fn decode_body<'a, T: Deserialize<'a>>(body: &'a str) -> serde_json::Result<T> {
    serde_json::from_str(body)
}

const fn text_channel(reasoning: bool) -> TextChannel {
    if reasoning { TextChannel::Reasoning } else { TextChannel::Answer }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::TurnStatus;

    use super::*;

    #[test]
    fn deltas_can_be_kept_too() {
        let delta =
            EventKind::Delta { block: 1, channel: TextChannel::Answer, text: "piece".into() };
        let mut body = Vec::new();
        let kind = encode(&delta, &mut body).unwrap();
        let read = decode(FORMAT_VERSION, kind, std::str::from_utf8(&body).unwrap());
        assert_eq!(format!("{read:?}"), format!("{delta:?}"));
    }

    /// Older versions did not record the context window, and agents often do not report it.
    #[test]
    fn usage_of_before_the_context_was_read_is_as_it_was() {
        let body = r#"{"input":1,"output":2,"cache_read":3,"cache_write":4}"#;
        let EventKind::Usage(usage) = decode(FORMAT_VERSION, "usage", body) else {
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
            (FORMAT_VERSION, "hologram", r#"{ "depth" : 3 }"#, r#"{ "depth" : 3 }"#),
            // A known kind with a body of another shape, or of a later format.
            (FORMAT_VERSION, "notice", r#"{"level":"shout"}"#, r#"{"level":"shout"}"#),
            (FORMAT_VERSION + 1, "plan", "[]", "[]"),
            (FORMAT_VERSION, "plan", "[", r#""[""#),
            (FORMAT_VERSION, "", "", r#""""#),
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
            let EventKind::Finished(outcome) = decode(FORMAT_VERSION + 1, "finished", body) else {
                panic!("{body}");
            };
            assert!(matches!(outcome.status, TurnStatus::Failed(_)), "{body}");
        }
    }
}
