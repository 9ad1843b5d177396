//! The form of events on disk: a word for the kind, and JSON for the rest. Decoding is total: an
//! event that this version does not know becomes `Native` and keeps its bytes.

mod body;

use std::sync::Arc;

use angelia_core::model::{EventKind, Plan, RawJson};
use serde::{Deserialize as _, Serialize as _};
use serde_json::value::{RawValue, to_raw_value};
use serde_with::{As, FromInto};

use self::body::{
    ApprovalBody, NativeBody, NoticeBody, PlanItemBody, ResolvedBody, StartedBody, TextBody,
    ToolCallBody, ToolResultBody,
};
use super::{
    outcome_json::{self, OutcomeBody, UsageBody},
    unreadable::Unreadable,
};

/// The format version of the bodies. Raised when a body changes incompatibly.
pub(super) const FORMAT_VERSION: i64 = 1;

/// Writes the body to `out` and returns the word for the kind.
pub(super) fn encode(event: &EventKind, out: &mut Vec<u8>) -> Result<&'static str, Unreadable> {
    let to = &mut serde_json::Serializer::new(out);
    let (kind, written) = match event {
        EventKind::Started(started) => ("started", StartedBody::serialize(started, to)),
        EventKind::Delta { block, channel, text } => {
            ("delta", TextBody::new(*block, *channel, text).serialize(to))
        }
        EventKind::Block { block, channel, text } => {
            ("block", TextBody::new(*block, *channel, text).serialize(to))
        }
        EventKind::ToolCall(call) => ("tool_call", ToolCallBody::serialize(call, to)),
        EventKind::ToolResult(result) => ("tool_result", ToolResultBody::serialize(result, to)),
        EventKind::Plan(plan) => ("plan", PlanItems::serialize(&plan.items, to)),
        EventKind::Approval(approval) => ("approval", ApprovalBody::serialize(approval, to)),
        EventKind::Resolved(resolution) => ("resolved", ResolvedBody::serialize(resolution, to)),
        EventKind::Usage(usage) => ("usage", UsageBody::serialize(usage, to)),
        EventKind::Notice(notice) => ("notice", NoticeBody::serialize(notice, to)),
        EventKind::Native { name, raw } => {
            let body = NativeBody { name: name.clone(), raw: Arc::clone(raw) };
            ("native", body.serialize(to))
        }
        EventKind::Finished(outcome) => {
            ("finished", OutcomeBody::from(outcome.clone()).serialize(to))
        }
    };
    written?;
    Ok(kind)
}

type PlanItems = As<Vec<FromInto<PlanItemBody>>>;

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

fn decode_known(kind: &str, body: &str) -> Result<EventKind, Unreadable> {
    let mut json = serde_json::Deserializer::from_str(body);
    let from = &mut json;
    let event = match kind {
        "started" => EventKind::Started(StartedBody::deserialize(from)?),
        "delta" => {
            let TextBody { block, channel, text } = TextBody::deserialize(from)?;
            EventKind::Delta { block, channel, text }
        }
        "block" => {
            let TextBody { block, channel, text } = TextBody::deserialize(from)?;
            EventKind::Block { block, channel, text }
        }
        "tool_call" => EventKind::ToolCall(ToolCallBody::deserialize(from)?),
        "tool_result" => EventKind::ToolResult(ToolResultBody::deserialize(from)?),
        "plan" => EventKind::Plan(Plan { items: PlanItems::deserialize(from)? }),
        "approval" => EventKind::Approval(ApprovalBody::deserialize(from)?),
        "resolved" => EventKind::Resolved(ResolvedBody::deserialize(from)?),
        "usage" => EventKind::Usage(UsageBody::deserialize(from)?),
        "notice" => EventKind::Notice(NoticeBody::deserialize(from)?),
        "native" => {
            let NativeBody { name, raw } = NativeBody::deserialize(from)?;
            EventKind::Native { name, raw }
        }
        other => return Err(Unreadable(format!("unknown kind `{other}`"))),
    };
    json.end()?;
    Ok(event)
}

#[cfg(test)]
mod tests {
    use angelia_core::model::{TextChannel, TurnStatus};

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
