//! Every recorded failure gets its kind and a hint.

use angelia_core::{
    model::{FailureKind, TurnStatus},
    ports::AgentOutcome,
};
use angelia_executors::claude::translate::StreamSignal;
use serde_json::{Value, json};

use super::driver::{all_recordings, outcomes, recording, run, translator};

/// Recordings that were killed before the CLI gave up.
const KILLED_RECORDINGS: &[&str] = &[
    "error_429_retrying_killed_at_95s",
    "error_529_fallback_model",
    "error_stream_cut_killed_at_62s",
    "error_stream_hung_killed_at_62s",
    "error_stream_hung_killed_at_95s",
];

const EXPECTED_KINDS: &[(&str, FailureKind)] = &[
    ("auth_no_credentials", FailureKind::Auth),
    ("error_400_credit", FailureKind::RateLimited),
    ("error_400_prompt_too_long", FailureKind::Invalid),
    ("error_401_api_key", FailureKind::Auth),
    ("error_403", FailureKind::Auth),
    ("error_404_bad_model", FailureKind::Invalid),
    ("error_413", FailureKind::Invalid),
    ("error_429", FailureKind::RateLimited),
    ("error_500", FailureKind::Unavailable),
    ("error_529", FailureKind::Unavailable),
    ("error_connection_refused", FailureKind::Unavailable),
    ("error_event_in_stream", FailureKind::Unavailable),
    ("error_html_200", FailureKind::Unavailable),
    ("error_malformed_sse", FailureKind::Unavailable),
    ("error_no_headers_timeout", FailureKind::Unavailable),
    ("error_oauth_401", FailureKind::Auth),
    ("error_oauth_revoked_403", FailureKind::Auth),
    ("error_stream_cut", FailureKind::Unavailable),
    ("error_subscription_limit", FailureKind::RateLimited),
];

#[test]
fn every_recorded_failure_has_its_kind_and_a_hint() {
    let mut tested = 0;
    for fixture in all_recordings() {
        let is_failure = fixture.name.starts_with("error_") || fixture.name.starts_with("auth_no");
        if !is_failure || fixture.name == "error_500_twice_then_ok" {
            continue;
        }
        let steps = run(&fixture);
        let ends = outcomes(&steps);
        let place = format!("{}/{}", fixture.version, fixture.name);
        let TurnStatus::Failed(failure) = &ends.first().expect(&place).status else {
            panic!("{place}: {ends:?}");
        };
        if KILLED_RECORDINGS.contains(&&*fixture.name) {
            assert_eq!(failure.kind, FailureKind::Agent, "{place}");
            continue;
        }
        let row = EXPECTED_KINDS.iter().find(|(name, _)| *name == fixture.name);
        assert_eq!(failure.kind, row.expect(&place).1, "{place}: {failure}");
        let said = failure.to_string();
        assert!(!said.contains("/login"), "{place}: {said}");
        let needs_hint = fixture.name != "error_429";
        assert!(failure.hint.is_some() || !needs_hint, "{place}: {said}");
        tested += 1;
    }
    assert!(tested >= 30, "{tested}");
}

#[test]
fn who_is_not_logged_in_is_told_how() {
    for version in super::driver::VERSIONS {
        let steps = run(&recording(version, "auth_no_credentials"));
        let ends = outcomes(&steps);
        assert_eq!(ends.len(), 2, "the process takes further turns");
        let failure = ends[0].status.failure().unwrap();
        assert_eq!(&*failure.message, "Not logged in");
        assert!(failure.hint.as_deref().unwrap().contains("claude auth login"));
        assert_eq!(ends[0].text, None, "the CLI's complaint is no answer");
    }
}

#[test]
fn a_wrong_key_is_looked_for_in_the_profile() {
    for version in super::driver::VERSIONS {
        let steps = run(&recording(version, "error_401_api_key"));
        let hint = outcomes(&steps)[0].status.failure().unwrap().hint.clone().unwrap();
        assert!(hint.contains("`env:`"), "{hint}");
    }
}

#[test]
fn an_exhausted_quota_says_when_it_opens() {
    let steps = run(&recording("2.1.325", "error_subscription_limit"));
    let failure = outcomes(&steps)[0].status.failure().unwrap();
    assert!(failure.hint.as_deref().unwrap().contains("2027-01-15T08:00:00Z"));
    let wait = failure.retry_after.unwrap().as_secs();
    assert!((60 * 86_400..61 * 86_400).contains(&wait), "{wait}");
    // The older version's lines carry no time to count from.
    let steps = run(&recording("2.1.197", "error_subscription_limit"));
    assert_eq!(outcomes(&steps)[0].status.failure().unwrap().retry_after, None);
}

#[test]
fn a_refusal_is_refused_and_a_lost_transcript_is_named() {
    let steps = run(&recording("2.1.197", "refusal"));
    let failure = outcomes(&steps)[0].status.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Refused);
    for version in super::driver::VERSIONS {
        let steps = run(&recording(version, "resume_unknown_id"));
        let ended = outcomes(&steps)[0];
        assert_eq!(&*ended.reason, "no_conversation");
        assert_eq!(ended.status.failure().unwrap().kind, FailureKind::Invalid);
    }
}

/// A key that is refused twice; the signals that the agent must act on, and the end.
fn refused_twice(source: &str) -> (Vec<bool>, AgentOutcome) {
    let retry = |attempt: u64| {
        json!({"type": "system", "subtype": "api_retry", "attempt": attempt, "max_retries": 10,
            "retry_delay_ms": 500, "error_status": 401, "error": "authentication_failed"})
    };
    let mut translator = translator(false);
    translator.begin_turn("u");
    let mut out = Vec::new();
    let mut say = |line: &Value| translator.translate_line(line.to_string().as_bytes(), &mut out);
    say(&json!({"type": "system", "subtype": "init", "session_id": "s", "apiKeySource": source}));
    let attempts = [1, 2, 3].map(retry);
    let attempts = attempts.iter().map(|line| matches!(say(line), Some(StreamSignal::FutileRetry)));
    let attempts = attempts.collect();
    let interrupted = json!({"type": "result", "subtype": "error_during_execution",
        "is_error": true, "terminal_reason": "aborted_streaming", "session_id": "s"});
    let Some(StreamSignal::TurnEnded(ended)) = say(&interrupted) else {
        unreachable!("a result that is ours ends the turn");
    };
    (attempts, ended)
}

#[test]
fn a_key_that_is_refused_twice_is_not_tried_for_minutes() {
    let (attempts, ended) = refused_twice("ANTHROPIC_API_KEY");
    assert_eq!(attempts, [false, true, false], "it is said once");
    let failure = ended.status.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.hint.as_deref().unwrap().contains("API_KEY"));

    // With a login, the CLI gives up soon by itself.
    let (attempts, ended) = refused_twice("none");
    assert_eq!(attempts, [false; 3]);
    assert_eq!(ended.status, TurnStatus::Interrupted);
}
