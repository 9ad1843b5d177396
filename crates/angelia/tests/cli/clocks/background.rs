//! Background work that continues after the answer.

use std::time::Duration;

use serde_json::json;

use super::{TimedOutTurn, with_timeouts};
use crate::agent_processes::agent_pids;

fn in_background(command: &str) -> String {
    let input = json!({"command": command, "description": "work on", "run_in_background": true});
    format!("TOOL:{}:END", json!({"name": "Bash", "input": input}))
}

#[test]
fn real_work_in_the_background_is_stopped_after_its_grace() {
    with_timeouts(&["background_grace: 3"], |watched| {
        let turn = watched.prompt(&in_background("timeout 1000 tail -f /dev/null"));
        assert!(turn.completed().text().contains("Tool finished"));
        let rung = TimedOutTurn::from_notice(turn, "background_stopped");
        rung.assert_since("notice", Some("background"), Duration::from_secs(3));
        let notice = rung.turn.of_type("notice");
        let told = notice.iter().find(|one| one["code"] == "background_stopped");
        let text = told.unwrap()["text"].as_str().unwrap();
        assert!(text.contains("background work for longer than background_grace"), "{text}");

        watched.assert_processes_gone(|line| line.contains("tail"));
        let kept = agent_pids(&watched.lab().machine);
        watched.assert_session_continues();
        assert_eq!(agent_pids(&watched.lab().machine), kept, "the process is healthy and is kept");
    });
}

#[test]
fn real_work_that_ends_within_its_grace_is_waited_for() {
    with_timeouts(&["background_grace: 30"], |watched| {
        let turn = watched.prompt(&in_background("timeout 2 tail -f /dev/null; echo done > made"));
        turn.completed();
        assert!(watched.lab().machine.work().join("made").exists());
        watched.assert_session_continues();
    });
}
