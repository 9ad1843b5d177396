//! A model that stops answering.

use std::time::Duration;

use angelia_testkit::model_server::{Fault, Reply};

use super::with_timeouts;
use crate::checklist::bash;

const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);
const LINES: &[&str] = &["inter_event_silence_timeout: 3"];

#[test]
fn real_a_model_that_hangs_before_its_headers_is_given_up() {
    with_timeouts(LINES, |watched| {
        let reason = "inter_event_silence_timeout while waiting for the model";
        for _cold_and_hot in 0..2 {
            let rung = watched.assert_times_out("HANG_HEADERS", reason);
            rung.assert_after_silence(SILENCE_TIMEOUT);
            let failure = rung.turn.failed("timeout");
            let message = failure["message"].as_str().unwrap();
            assert!(message.contains("waiting for the model"), "{message}");
            let hint = failure["hint"].as_str().unwrap();
            assert!(hint.contains("inter_event_silence_timeout"), "{hint}");
        }
    });
}

#[test]
fn real_a_model_that_hangs_in_mid_stream_is_given_up_with_what_it_said() {
    with_timeouts(LINES, |watched| {
        let reason = "inter_event_silence_timeout while streaming";
        let rung = watched.assert_times_out("HANG_BODY", reason);
        rung.assert_after_silence(SILENCE_TIMEOUT);
        let shown: String = (rung.turn.of_type("text.delta").iter())
            .map(|delta| delta["text"].as_str().unwrap())
            .collect();
        assert!(!shown.is_empty());
        assert_eq!(rung.turn.text(), shown, "the text so far is kept");
    });
}

#[test]
fn real_a_model_that_hangs_after_a_tool_is_given_up() {
    let lines = ["post_tool_quiet_timeout: 3", "inter_event_silence_timeout: 30"];
    with_timeouts(&lines, |watched| {
        let prompt = format!("{} HANG_HEADERS", bash("echo ran"));
        let reason = "post_tool_quiet_timeout while quiet after a tool";
        let rung = watched.assert_times_out(&prompt, reason);
        rung.assert_after_silence(Duration::from_secs(3));
        assert_eq!(rung.turn.first("tool.finished")["ok"], true);
    });
}

#[test]
fn real_a_compaction_that_hangs_is_given_up() {
    with_timeouts(&["compaction_timeout: 3"], |watched| {
        for _enough_to_shorten in 0..3 {
            watched.assert_session_continues();
        }
        (watched.lab().server).script([Reply::fault(Fault::HangHeaders)]);
        let rung = watched.assert_times_out("/compact", "compaction_timeout while compacting");
        rung.assert_since("notice", Some("compacting"), Duration::from_secs(3));
    });
}
