//! `session/request_permission`: asks the editor whether a tool may run, and turns its answer into
//! a decision.

use agent_client_protocol_schema::v1::{RequestPermissionOutcome, RequestPermissionResponse};
use angelia_core::model::{Decision, Verdict};
use serde::Serialize;

use super::{connection::Answer, shown::AskedTool};

pub(super) const METHOD: &str = "session/request_permission";

/// The decider in the record: the person at the editor is the owner.
pub(super) const BY: &str = "owner";

/// The options. Their ids are their kinds.
const CHOICES: [(&str, &str, Verdict); 3] = [
    ("allow_once", "Allow", Verdict::Once),
    ("allow_always", "Allow for this session", Verdict::Session),
    ("reject_once", "Reject", Verdict::Deny),
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Params<'a> {
    pub(super) session_id: &'a str,
    pub(super) tool_call: AskedTool<'a>,
    pub(super) options: Vec<Choice<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Choice<'a> {
    pub(super) option_id: String,
    pub(super) name: &'a str,
    pub(super) kind: &'static str,
}

pub(super) fn params<'a>(session_id: &'a str, tool_call: AskedTool<'a>) -> Params<'a> {
    let choice = |(kind, name, _): &(&'static str, &'static str, Verdict)| Choice {
        option_id: (*kind).to_owned(),
        name,
        kind,
    };
    Params { session_id, tool_call, options: CHOICES.iter().map(choice).collect() }
}

/// The person's choice.
pub(super) enum Chose {
    Option(String),
    /// The person cancelled the whole prompt.
    Cancelled,
    /// The editor gave no usable answer, for this reason.
    Nothing(String),
}

pub(super) fn chose(answer: Answer) -> Chose {
    let answer = match answer {
        Ok(answer) => serde_json::from_str::<RequestPermissionResponse>(answer.get()),
        Err(why) => return Chose::Nothing(why),
    };
    match answer.map(|answer| answer.outcome) {
        Ok(RequestPermissionOutcome::Selected(selected)) => {
            Chose::Option(selected.option_id.0.as_ref().to_owned())
        }
        Ok(_) => Chose::Cancelled,
        Err(error) => Chose::Nothing(format!("the editor's answer is invalid: {error}")),
    }
}

/// Turns the answer into a decision. Anything but a known option denies.
pub(super) fn decision(answer: Answer) -> Decision {
    match chose(answer) {
        Chose::Option(id) => {
            let choice = CHOICES.iter().find(|(kind, ..)| *kind == id);
            match choice {
                Some((.., verdict)) => Decision::new(*verdict, BY),
                None => Decision::new(Verdict::Deny, BY)
                    .with_note(format!("`{id}` was not among the choices")),
            }
        }
        Chose::Cancelled => Decision::new(Verdict::Stop, BY),
        Chose::Nothing(why) => Decision::new(Verdict::Deny, "nobody").with_note(why),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn verdict(json: &str) -> Verdict {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        decision(Ok(raw)).verdict
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
        assert!(!decision(Err("no".to_owned())).verdict.allows());
    }
}
