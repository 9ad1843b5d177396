//! Tests that each recorded failure ends its turn, with the right hint.

use std::time::Duration;

use angelia_core::{
    model::{EventKind, Failure, FailureKind, TurnStatus},
    ports::{Activity, AgentEvent},
};

use super::driver::{ends, run};

fn failure(name: &str) -> Failure {
    let steps = run(name);
    let ends = ends(&steps);
    match &ends.first().unwrap().status {
        TurnStatus::Failed(failure) => failure.clone(),
        other => unreachable!("{name}: {other:?}"),
    }
}

#[test]
fn kinds_and_hints() {
    use FailureKind::{Auth, Invalid, RateLimited, Unavailable};
    let cases = [
        ("fail-400", Invalid, None),
        ("fail-401", Auth, Some("check the key")),
        ("fail-403", Auth, Some("check the key")),
        ("fail-404", Invalid, Some("`model:`")),
        ("fail-429", RateLimited, None),
        ("fail-429-retryafter", RateLimited, None),
        ("fail-429-quota", RateLimited, Some("add credit")),
        ("fail-429-usagelimit", RateLimited, Some("resets at 2026-11-16T03:33:00Z")),
        ("fail-500", Unavailable, Some("try again")),
        ("fail-503-overloaded", Unavailable, Some("try again")),
        ("fail-cut-stream", Unavailable, Some("network")),
        ("fail-html-200", Unavailable, Some("network")),
        ("fail-hung-connect", Unavailable, Some("network")),
        ("fail-hung-stream", Unavailable, Some("network")),
        ("fail-malformed-sse", Unavailable, Some("network")),
        ("fail-response-failed-context", Invalid, Some("new session")),
        ("fail-response-failed-ratelimit", RateLimited, None),
        ("fail-response-incomplete", Invalid, Some("new session")),
        ("auth-envkey-401", Auth, Some("check the key")),
        ("auth-envkey-missing", Auth, Some("set FAKE_KEY")),
        ("auth-openai-notloggedin", Auth, Some("codex login")),
        ("auth-openai-apikey-401", Auth, Some("codex login")),
        ("auth-chatgpt-expired-token", Auth, Some("codex login")),
        ("auth-chatgpt-401-refresh-expired", Auth, Some("codex login")),
        ("auth-chatgpt-401-refresh-reused", Auth, Some("codex login")),
    ];
    for (name, kind, hint) in cases {
        let failure = failure(name);
        assert_eq!(failure.kind, kind, "{name}");
        let told = failure.hint.as_deref().unwrap_or("-");
        assert!(told.contains(hint.unwrap_or("-")), "{name}: {told}");
    }
}

#[test]
fn waiting_times_are_told() {
    assert_eq!(failure("fail-429-usagelimit").retry_after, Some(Duration::from_secs(34147)));
    assert_eq!(
        failure("fail-response-failed-ratelimit").retry_after,
        Some(Duration::from_millis(1500))
    );
}

#[test]
fn the_body_of_a_response_is_not_shown_to_people() {
    assert_eq!(&*failure("fail-400").message, "Invalid value: model");
}

#[test]
fn the_turn_behind_a_failure_works() {
    for name in ["fail-401", "fail-cut-stream", "auth-openai-notloggedin"] {
        let steps = run(name);
        let ends = ends(&steps);
        if let Some(last) = ends.get(1) {
            assert_eq!(last.status, TurnStatus::Completed, "{name}");
        }
    }
}

#[test]
fn retries_are_a_status_with_a_hint_at_the_first() {
    let steps = run("fail-401");
    let notices: Vec<String> = (steps.iter().flat_map(|step| &step.emitted))
        .filter_map(|emitted| match emitted {
            AgentEvent::Event(EventKind::Notice(notice)) if &*notice.code == "retrying" => {
                Some(notice.text.to_string())
            }
            _ => None,
        })
        .collect();
    assert_eq!(notices.len(), 5);
    let hinted = notices.iter().filter(|text| text.contains("check the key"));
    assert_eq!(hinted.count(), 1);
    assert!(notices[0].contains("check the key") && notices[0].contains("1/5"), "{notices:?}");
    let activities = (steps.iter().flat_map(|step| &step.emitted))
        .filter(|emitted| matches!(emitted, AgentEvent::Activity(Activity::Retrying)));
    assert_eq!(activities.count(), 1, "it is one waiting");
}
