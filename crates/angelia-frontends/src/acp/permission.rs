//! `session/request_permission`: asks the editor whether a tool may run, and turns its answer into
//! a decision.

use std::{borrow::Cow, sync::Arc};

use agent_client_protocol_schema::v1::{RequestPermissionOutcome, RequestPermissionResponse};
use angelia_core::model::{Decision, Verdict};
use serde::Serialize;

use super::{connection::EditorResponse, update_json::PermissionToolCall};

pub(super) const METHOD: &str = "session/request_permission";

/// The decider in the record: the person at the editor is the owner.
pub(super) const DECIDED_BY: &str = "owner";

/// How many of the agent's wider rules are offered.
const MAX_WIDER_RULES: usize = 2;
const MAX_RULE_CHARS: usize = 80;

/// An answer that the editor offers to the person.
struct Choice {
    id: String,
    name: String,
    kind: &'static str,
    verdict: Verdict,
    /// The rule to grant, or `None` for exactly this call.
    rule: Option<Arc<str>>,
}

/// Returns the possible answers to a request with these rules. Each wider rule is a separate
/// choice, so that nobody grants it by accident.
fn choices(rules: &[Arc<str>]) -> Vec<Choice> {
    let choice = |id: &str, name: &str, kind, verdict| Choice {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
        verdict,
        rule: None,
    };
    let mut all = vec![
        choice("allow_once", "Allow", "allow_once", Verdict::Once),
        choice("allow_always", "Allow this for the session", "allow_always", Verdict::Session),
        choice("allow_here", "Always allow this here", "allow_always", Verdict::Always),
    ];
    for (index, rule) in rules.iter().enumerate().skip(1).take(MAX_WIDER_RULES) {
        let shown: String = rule.chars().take(MAX_RULE_CHARS).collect();
        all.push(Choice {
            id: format!("allow_session_{index}"),
            name: format!("Allow {shown} for the session"),
            kind: "allow_always",
            verdict: Verdict::Session,
            rule: Some(Arc::clone(rule)),
        });
    }
    all.push(choice("reject_once", "Reject", "reject_once", Verdict::Deny));
    all
}

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
    pub(super) name: Cow<'a, str>,
    pub(super) kind: &'static str,
}

pub(super) fn params<'a>(
    session_id: &'a str,
    tool_call: PermissionToolCall<'a>,
    rules: &[Arc<str>],
) -> PermissionParams<'a> {
    let option = |choice: Choice| PermissionOption {
        option_id: choice.id,
        name: choice.name.into(),
        kind: choice.kind,
    };
    let options = choices(rules).into_iter().map(option).collect();
    PermissionParams { session_id, tool_call, options }
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
pub(super) fn parse_decision(answer: EditorResponse, rules: &[Arc<str>]) -> Decision {
    match parse_outcome(answer) {
        PermissionOutcome::Selected(id) => {
            let choice = choices(rules).into_iter().find(|choice| choice.id == id);
            match choice {
                Some(Choice { verdict, rule, .. }) => {
                    Decision { rule, ..Decision::new(verdict, DECIDED_BY) }
                }
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
        parse_decision(Ok(raw), &[]).verdict
    }

    #[test]
    fn answers_decide_by_their_option() {
        let selected = |id: &str| {
            verdict(&format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{id}"}}}}"#))
        };
        assert_eq!(selected("allow_once"), Verdict::Once);
        assert_eq!(selected("allow_always"), Verdict::Session);
        assert_eq!(selected("allow_here"), Verdict::Always);
        assert_eq!(selected("allow_session_1"), Verdict::Deny, "it was not offered");
        assert_eq!(selected("reject_once"), Verdict::Deny);
        assert_eq!(selected("allow"), Verdict::Deny);
        let cancelled = r#"{"outcome":{"outcome":"cancelled"}}"#;
        assert_eq!(verdict(cancelled), Verdict::Stop);
    }

    #[test]
    fn a_wider_rule_is_granted_only_by_its_own_choice() {
        let rules: [Arc<str>; 2] = ["Bash(npm run build)".into(), "Bash(npm run *)".into()];
        let chosen = |id: &str| {
            let json = format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{id}"}}}}"#);
            parse_decision(Ok(RawValue::from_string(json).unwrap()), &rules)
        };
        assert_eq!(chosen("allow_always").rule, None);
        let wider = chosen("allow_session_1");
        assert_eq!((wider.verdict, wider.rule), (Verdict::Session, Some("Bash(npm run *)".into())));
    }

    #[test]
    fn what_is_not_understood_allows_nothing() {
        for odd in ["{}", "null", "[]", r#"{"outcome":"selected"}"#, r#"{"outcome":{}}"#] {
            assert!(!verdict(odd).allows(), "{odd}");
        }
        assert!(!parse_decision(Err("no".to_owned()), &[]).verdict.allows());
    }
}
