//! What follows a request that has failed.

use std::time::Duration;

use angelia_core::model::FailureKind;
use angelia_executors::native::{
    provider::{ErrorReply, ProviderError},
    retry::{
        AttemptContext, AttemptFault, Detours, MAX_RETRIES, RefusedPart, RetryState, RetryStep,
    },
};

fn fault(status: u16, headers: &[(&str, &str)], body: &str) -> AttemptFault {
    let now = "2026-11-17T08:00:00Z".parse().unwrap();
    AttemptFault::Error(ProviderError::from_reply(&ErrorReply { status, headers, body, now }))
}

fn steps(fault: &AttemptFault, has_shown_text: bool, count: usize) -> Vec<RetryStep> {
    let mut state = RetryState::default();
    let context = AttemptContext { has_shown_text, ..AttemptContext::default() };
    (0..count).map(|_| state.next_step(fault, &context)).collect()
}

/// Returns the first step where other keys or models can be used.
fn step_with(fault: &AttemptFault, detours: Detours) -> RetryStep {
    let context = AttemptContext { detours, ..AttemptContext::default() };
    RetryState::default().next_step(fault, &context)
}

fn failure_kind(step: Option<&RetryStep>) -> Option<FailureKind> {
    match step {
        Some(RetryStep::GiveUp(failure)) => Some(failure.kind),
        _ => None,
    }
}

#[test]
fn a_server_that_fails_is_asked_again_with_growing_waits() {
    for fault in
        [fault(529, &[], ""), fault(500, &[], "x"), fault(408, &[], ""), AttemptFault::Dropped]
    {
        let steps = steps(&fault, false, 6);
        let waits = [500, 1000, 2000, 4000, 8000];
        for (retry, millis) in (1..=MAX_RETRIES).zip(waits) {
            let after = Duration::from_millis(millis);
            assert_eq!(steps[retry as usize - 1], RetryStep::Again { after, retry }, "{fault:?}");
        }
        assert_eq!(failure_kind(steps.last()), Some(FailureKind::Unavailable), "{fault:?}");
    }
    let mut state = RetryState::default();
    let context = AttemptContext { random: 1.0, ..AttemptContext::default() };
    let step = state.next_step(&AttemptFault::Dropped, &context);
    assert_eq!(step, RetryStep::Again { after: Duration::from_millis(375), retry: 1 });
}

#[test]
fn the_provider_decides_how_long_and_whether() {
    let after = |step: &RetryStep| match step {
        RetryStep::Again { after, .. } => Some(after.as_secs_f64()),
        _ => None,
    };
    let limited = |headers: &[(&str, &str)]| steps(&fault(429, headers, "{}"), false, 1).remove(0);
    assert_eq!(after(&limited(&[("retry-after", "2")])), Some(2.0));
    assert_eq!(after(&limited(&[("retry-after-ms", "1250")])), Some(1.25));
    let long = limited(&[("retry-after", "61")]);
    let RetryStep::GiveUp(failure) = &long else { panic!("{long:?}") };
    assert_eq!(failure.kind, FailureKind::RateLimited);
    assert_eq!(failure.retry_after, Some(Duration::from_secs(61)));
    let never = steps(&fault(500, &[("x-should-retry", "false")], "down"), false, 1).remove(0);
    assert_eq!(failure_kind(Some(&never)), Some(FailureKind::Unavailable));
    let again = [("x-should-retry", "true")];
    let wanted = steps(&fault(400, &again, "odd"), false, 1).remove(0);
    assert_eq!(after(&wanted), Some(0.5));
}

#[test]
fn an_account_is_not_asked_again_whatever_the_provider_says() {
    let quota = r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#;
    let table = [
        (429, quota, FailureKind::Refused),
        (403, "not in your plan", FailureKind::Refused),
        (401, "unknown key", FailureKind::Auth),
    ];
    for (status, body, kind) in table {
        let step = steps(&fault(status, &[("x-should-retry", "true")], body), false, 1).remove(0);
        assert_eq!(failure_kind(Some(&step)), Some(kind), "{status}: {step:?}");
    }
}

#[test]
fn after_visible_text_the_answer_is_continued_and_never_repeated() {
    let steps = steps(&AttemptFault::Dropped, true, 3);
    assert!(matches!(steps[0], RetryStep::Continue { .. }), "{steps:?}");
    assert!(matches!(steps[1], RetryStep::Continue { .. }), "{steps:?}");
    assert_eq!(failure_kind(steps.last()), Some(FailureKind::Unavailable));
}

#[test]
fn what_was_refused_is_left_out_once() {
    let table = [
        ("Invalid `signature` in `thinking` block", RefusedPart::Reasoning),
        ("this model does not support image input", RefusedPart::Images),
        ("failed to parse grammar", RefusedPart::SchemaKeywords),
    ];
    for (words, part) in table {
        let steps =
            steps(&fault(400, &[], &format!(r#"{{"error":{{"message":"{words}"}}}}"#)), false, 2);
        assert_eq!(steps[0], RetryStep::Without(part));
        assert_eq!(failure_kind(steps.last()), Some(FailureKind::Invalid));
    }
    let cap = fault(400, &[], r#"{"error":{"message":"max_tokens: 9000 > 8192"}}"#);
    assert_eq!(steps(&cap, false, 1), [RetryStep::LowerOutput { tokens: 8192 }]);
    let overflow =
        fault(400, &[], r#"{"error":{"message":"maximum context length is 4096 tokens"}}"#);
    assert_eq!(steps(&overflow, false, 1), [RetryStep::Shorten { window: Some(4096) }]);
}

#[test]
fn errors_of_our_own_making_and_of_the_account_are_told_at_once() {
    let table = [
        (401, r#"{"error":{"message":"Incorrect API key"}}"#, FailureKind::Auth),
        (403, r#"{"error":{"message":"not in your plan"}}"#, FailureKind::Refused),
        (
            429,
            r#"{"error":{"message":"no quota","code":"insufficient_quota"}}"#,
            FailureKind::Refused,
        ),
        (404, r#"{"error":{"message":"no such model"}}"#, FailureKind::Invalid),
        (400, r#"{"error":{"message":"temperature is wrong"}}"#, FailureKind::Invalid),
    ];
    for (status, body, kind) in table {
        let step = steps(&fault(status, &[], body), false, 1).remove(0);
        let RetryStep::GiveUp(failure) = step else { panic!("{status} {body}") };
        assert_eq!(failure.kind, kind, "{body}");
        let words = body.split('"').nth(5).unwrap();
        assert!(failure.message.contains(words), "{}", failure.message);
    }
    let steps = steps(&AttemptFault::Certificate, false, 1);
    assert_eq!(failure_kind(steps.first()), Some(FailureKind::Unavailable));
}

#[test]
fn e26_e27_each_error_takes_the_detour_that_can_help() {
    const NOW: Duration = Duration::ZERO;
    let all =
        Detours { renewed_key: true, other_key: Some(NOW), other_model: true, on_probation: false };
    let key = Detours { renewed_key: false, ..all };
    let model = Detours { other_key: None, ..key };
    let falls_back =
        |fault: &AttemptFault, detours| matches!(step_with(fault, detours), RetryStep::FallBack(_));
    let refused = fault(401, &[], r#"{"error":{"message":"Incorrect API key"}}"#);
    assert_eq!(step_with(&refused, all), RetryStep::RenewKey);
    assert_eq!(step_with(&refused, key), RetryStep::NextKey { after: NOW });
    assert!(falls_back(&refused, model));
    let unpaid = fault(429, &[], r#"{"error":{"message":"no","code":"insufficient_quota"}}"#);
    assert_eq!(step_with(&unpaid, all), RetryStep::NextKey { after: NOW });
    let rests = Detours { other_key: Some(Duration::from_secs(3)), ..model };
    assert!(falls_back(&unpaid, rests), "a key that failed before is not waited for");
    let forbidden = fault(403, &[], r#"{"error":{"message":"not in your plan"}}"#);
    assert!(falls_back(&forbidden, all), "another key of the account may do no more");
    for wrong in [
        fault(400, &[], r#"{"error":{"message":"temperature is wrong"}}"#),
        fault(404, &[], r#"{"error":{"message":"no such model"}}"#),
        fault(400, &[], r#"{"error":{"message":"no","code":"content_policy_violation"}}"#),
    ] {
        let step = step_with(&wrong, all);
        assert!(matches!(step, RetryStep::GiveUp(_)), "{step:?}");
    }
    assert!(falls_back(&AttemptFault::Certificate, all));
    assert!(falls_back(&fault(503, &[("retry-after", "6")], ""), all));
    assert!(!falls_back(&fault(503, &[("retry-after", "5")], ""), all));
    assert!(falls_back(&AttemptFault::Dropped, Detours { on_probation: true, ..model }));
}
