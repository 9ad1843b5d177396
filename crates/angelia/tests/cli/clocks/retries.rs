//! A model API that fails repeatedly: the program itself would retry for three minutes.

use std::time::Duration;

use angelia_testkit::real::RealClaude;

use super::with_timeouts;

const RETRY_TIMEOUT: Duration = Duration::from_secs(3);
const LINES: &[&str] = &["retry_timeout: 3"];
const REASON: &str = "retry_timeout while retrying upstream";
const RETRYING: Option<&str> = Some("retrying");

#[test]
fn real_endless_retries_after_429_are_given_up() {
    with_timeouts(LINES, |watched| {
        let rung = watched.assert_times_out("STATUS:429", REASON);
        rung.assert_since("notice", RETRYING, RETRY_TIMEOUT);
    });
}

#[test]
fn real_endless_retries_after_500_are_given_up() {
    with_timeouts(LINES, |watched| {
        let rung = watched.assert_times_out("STATUS:500", REASON);
        rung.assert_since("notice", RETRYING, RETRY_TIMEOUT);
    });
}

/// Retrying does not help against a wrong key, so the turn ends at once.
#[test]
fn real_a_wrong_key_is_said_at_once() {
    with_timeouts(&["retry_timeout: 60"], |watched| {
        let turn = watched.prompt("STATUS:401");
        let failure = turn.failed("auth");
        let hint = failure["hint"].as_str().unwrap();
        assert!(hint.contains("ANTHROPIC_API_KEY"), "{hint}");
        let asked = watched.lab().server.model_requests().len();
        assert!(asked <= 3, "{asked} requests");
        watched.assert_session_continues();
    });
}

/// The older version tries once more in another way and then reports the failure; the newer one
/// keeps retrying.
#[test]
fn real_a_stream_that_is_always_cut_ends() {
    with_timeouts(LINES, |watched| {
        if watched.lab().claude.version == RealClaude::OLDEST {
            watched.prompt("CUT").failed("unavailable");
            watched.assert_session_continues();
        } else {
            let rung = watched.assert_times_out("CUT", REASON);
            rung.assert_since("notice", RETRYING, RETRY_TIMEOUT);
        }
        let turn = watched.prompt("CUT:1 ECHO:whole after all");
        assert_eq!(turn.completed().text(), "whole after all");
    });
}
