//! A model API that fails repeatedly: the program itself would retry for three minutes.

use std::time::Duration;

use angelia_testkit::real::RealClaude;

use super::watched;

const RETRIES: Duration = Duration::from_secs(3);
const LINES: &[&str] = &["retry_timeout: 3"];
const REASON: &str = "retry_timeout while retrying upstream";
const RETRYING: Option<&str> = Some("retrying");

#[test]
fn real_endless_retries_after_429_are_given_up() {
    watched(LINES, |watched| {
        let rung = watched.rings("STATUS:429", REASON);
        rung.since("notice", RETRYING, RETRIES);
    });
}

#[test]
fn real_endless_retries_after_500_are_given_up() {
    watched(LINES, |watched| {
        let rung = watched.rings("STATUS:500", REASON);
        rung.since("notice", RETRYING, RETRIES);
    });
}

/// Retrying does not help against a wrong key, so the turn ends at once.
#[test]
fn real_a_wrong_key_is_said_at_once() {
    watched(&["retry_timeout: 60"], |watched| {
        let turn = watched.say("STATUS:401");
        let failure = turn.failed("auth");
        let hint = failure["hint"].as_str().unwrap();
        assert!(hint.contains("ANTHROPIC_API_KEY"), "{hint}");
        let asked = watched.lab().server.model_requests().len();
        assert!(asked <= 3, "{asked} requests");
        watched.goes_on();
    });
}

/// The older version tries once more in another way and then reports the failure; the newer one
/// keeps retrying.
#[test]
fn real_a_stream_that_is_always_cut_ends() {
    watched(LINES, |watched| {
        if watched.lab().claude.version == RealClaude::OLDEST {
            watched.say("CUT").failed("unavailable");
            watched.goes_on();
        } else {
            let rung = watched.rings("CUT", REASON);
            rung.since("notice", RETRYING, RETRIES);
        }
        let turn = watched.say("CUT:1 ECHO:whole after all");
        assert_eq!(turn.completed().text(), "whole after all");
    });
}
