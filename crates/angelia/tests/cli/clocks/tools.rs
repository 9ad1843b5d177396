//! A tool that never ends, and one that is only slow.

use std::time::Duration;

use super::with_timeouts;
use crate::checklist::bash;

#[test]
fn real_an_endless_tool_is_stopped_by_its_own_clock() {
    let lines = ["tool_timeout: 3", "inter_event_silence_timeout: 30"];
    with_timeouts(&lines, |watched| {
        let endless = bash("timeout 1000 tail -f /dev/null");
        let rung = watched.assert_times_out(&endless, "tool_timeout while running Bash");
        rung.assert_since("tool.started", None, Duration::from_secs(3));
        assert_eq!(rung.turn.first("tool.finished")["ok"], false);
        assert!(rung.turn.text().contains("I will call a tool"));
    });
}

#[test]
fn real_a_tool_that_works_longer_than_the_silence_is_left_alone() {
    let lines = ["inter_event_silence_timeout: 3", "post_tool_quiet_timeout: 30"];
    with_timeouts(&lines, |watched| {
        let long = bash("for i in 1 2 3; do timeout 2 tail -f /dev/null; done; echo worked");
        let turn = watched.prompt(&long);
        turn.completed();
        let output = turn.first("tool.finished")["output"].as_str().unwrap();
        assert!(output.contains("worked"), "{output}");
        watched.assert_session_continues();
    });
}
