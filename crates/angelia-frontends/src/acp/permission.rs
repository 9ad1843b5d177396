//! `session/request_permission`: asks the editor whether a tool may run, and turns its answer into
//! a decision.

use agent_client_protocol_schema::v1::{RequestPermissionOutcome, RequestPermissionResponse};
use angelia_core::model::{Decision, Verdict};
use serde::Serialize;

use super::{connection::EditorResponse, update_json::PermissionToolCall};

pub(super) const METHOD: &str = "session/request_permission";

/// The decider in the record: the person at the editor is the owner.
pub(super) const DECIDED_BY: &str = "owner";

/// The options. Their ids are their kinds.
const CHOICES: [(&str, &str, Verdict); 3] = [
    ("allow_once", "Allow", Verdict::Once),
    ("allow_always", "Allow for this session", Verdict::Session),
    ("reject_once", "Reject", Verdict::Deny),
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionParams<'a> {
    pub(super) session_id: &'a str,
    pub(super) tool_call: PermissionToolCall<'a>,
    pub(super) options: Vec<PermissionOption<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionOption<'a> {
    pub(super) option_id: String,
    pub(super) name: &'a str,
    pub(super) kind: &'static str,
}

pub(super) fn params<'a>(
    session_id: &'a str,
    tool_call: PermissionToolCall<'a>,
) -> PermissionParams<'a> {
    let choice = |(kind, name, _): &(&'static str, &'static str, Verdict)| PermissionOption {
        option_id: (*kind).to_owned(),
        name,
        kind,
    };
    PermissionParams { session_id, tool_call, options: CHOICES.iter().map(choice).collect() }
}

/// The person's choice.
pub(super) enum PermissionOutcome {
    Selected(String),
    /// The person cancelled the whole prompt.
    Cancelled,
    /// The editor gave no usable answer, for this reason.
    NoAnswer(String),
}

pub(super) fn parse_outcome(answer: EditorResponse) -> PermissionOutcome {
    let answer = match answer {
        Ok(answer) => serde_json::from_str::<RequestPermissionResponse>(answer.get()),
        Err(why) => return PermissionOutcome::NoAnswer(why),
    };
    match answer.map(|answer| answer.outcome) {
        Ok(RequestPermissionOutcome::Selected(selected)) => {
            PermissionOutcome::Selected(selected.option_id.0.as_ref().to_owned())
        }
        Ok(_) => PermissionOutcome::Cancelled,
        Err(error) => {
            PermissionOutcome::NoAnswer(format!("the editor's answer is invalid: {error}"))
        }
    }
}

/// Turns the answer into a decision. Anything but a known option denies.
pub(super) fn parse_decision(answer: EditorResponse) -> Decision {
    match parse_outcome(answer) {
        PermissionOutcome::Selected(id) => {
            let choice = CHOICES.iter().find(|(kind, ..)| *kind == id);
            match choice {
                Some((.., verdict)) => Decision::new(*verdict, DECIDED_BY),
                None => Decision::new(Verdict::Deny, DECIDED_BY)
                    .with_note(format!("`{id}` was not among the choices")),
            }
        }
        PermissionOutcome::Cancelled => Decision::new(Verdict::Stop, DECIDED_BY),
        PermissionOutcome::NoAnswer(why) => Decision::new(Verdict::Deny, "nobody").with_note(why),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn verdict(json: &str) -> Verdict {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        parse_decision(Ok(raw)).verdict
    }

    #[test]
    fn answers_decide_by_their_option() {
        let selected = |id: &str| {
            verdict(&format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{id}"}}}}"#))
        };
        assert_eq!(selected("allow_once"), Verdict::Once);
        assert_eq!(selected("allow_always"), Verdict::Session);
        assert_eq!(selected("reject_once"), Verdict::Deny);
        assert_eq!(selected("allow"), Verdict::Deny);
        let cancelled = r#"{"outcome":{"outcome":"cancelled"}}"#;
        assert_eq!(verdict(cancelled), Verdict::Stop);
    }

    #[test]
    fn what_is_not_understood_allows_nothing() {
        for odd in ["{}", "null", "[]", r#"{"outcome":"selected"}"#, r#"{"outcome":{}}"#] {
            assert!(!verdict(odd).allows(), "{odd}");
        }
        assert!(!parse_decision(Err("no".to_owned())).verdict.allows());
    }
}
