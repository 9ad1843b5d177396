//! The limits of a turn, with their names from Hermes: A11 the hard timeout, A12 the first event,
//! A13 silence, A14 budgets, A15 automatic continuation.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Instant};

use angelia_testkit::model_server::{Reply, ReplyBlock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{ClaudeFixture, bash, on_each_version};
use crate::{
    agent_processes::agent_pids,
    machine::{Machine, until},
    transcript::Transcript,
};

const ENDLESS_PROMPT: &str = "WORDS:100000:20";

/// Returns seconds for a timeout that also runs while the program starts: the measured start-up
/// time on this machine plus a margin.
fn generous_timeout_secs(lab: &ClaudeFixture) -> u64 {
    lab.configure_bridge(&["enabled: true"]);
    let began = Instant::now();
    lab.machine.turn(&["hello"]).completed();
    (5 + 3 * began.elapsed().as_secs()).min(40)
}

/// Asserts that the turn failed with this timeout as its reason, and that the agent and all its
/// processes are gone.
#[track_caller]
fn assert_failed_in_time(lab: &ClaudeFixture, turn: &Transcript, reason: &str) {
    let message = turn.failed("timeout")["message"].as_str().unwrap();
    let clock = reason.split(' ').next().unwrap();
    assert!(message.contains(clock), "{message}");
    assert_eq!(turn.end()["reason"], reason, "{turn:#?}");
    assert_processes_gone(&lab.machine);
}

#[track_caller]
fn assert_processes_gone(machine: &Machine) {
    until("the agent's processes are gone", || agent_pids(machine).is_empty());
}

#[track_caller]
fn assert_session_continues(lab: &ClaudeFixture, session: &str) {
    let next = lab.machine.turn(&["-s", session, "ECHO:healthy"]);
    assert_eq!(next.completed().text(), "healthy");
}

fn notices(turn: &Transcript, code: &str) -> usize {
    let notices = turn.of_type("notice");
    notices.iter().filter(|one| one["code"] == code).count()
}

#[test]
fn real_a11_the_hard_timeout_ends_the_turn_and_its_child() {
    on_each_version(|lab| {
        let timeout = format!("timeout: {}", generous_timeout_secs(lab));
        lab.configure_bridge(&["enabled: true", "permissions: unattended", &timeout]);
        let endless = bash("timeout 1000 tail -f /dev/null");
        let turn = lab.machine.turn(&["-s", "chat", &endless]);
        assert_failed_in_time(lab, &turn, "timeout while running Bash");
        assert!(turn.text().contains("I will call"), "the text so far");
        assert_session_continues(lab, "chat");
    });
}

/// Wraps the real program so that it hangs at its start while a certain file exists.
fn hanging_at_start(lab: &ClaudeFixture) -> (String, std::path::PathBuf) {
    let root = lab.machine.place.root();
    let (wrapper, hang) = (root.join("claude"), root.join("hang"));
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *stream-json*) [ -e '{}' ] && exec tail -f /dev/null ;; esac\n\
         exec '{}' \"$@\"\n",
        hang.display(),
        lab.claude.path.display()
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    (wrapper.to_str().unwrap().to_owned(), hang)
}

#[test]
fn real_a12_no_event_in_time_is_a_prompt_failure() {
    let reason = "first_event_timeout while starting";
    on_each_version(|lab| {
        let seconds = generous_timeout_secs(lab);
        let asked = lab.server.model_requests().len();
        let (wrapper, hang) = hanging_at_start(lab);
        lab.claude.path = wrapper.into();
        lab.configure_bridge(&[
            "enabled: true",
            "resume_claude_sessions: true",
            &format!("first_event_timeout: {seconds}"),
        ]);
        fs::write(&hang, "").unwrap();
        let turn = lab.machine.turn(&["-s", "cold", "hello"]);
        assert_failed_in_time(lab, &turn, reason);
        assert_eq!(lab.server.model_requests().len(), asked);
        fs::remove_file(&hang).unwrap();
        assert_session_continues(lab, "cold");

        // A process that was healthy and then hangs.
        let serving = lab.machine.serve();
        assert_session_continues(lab, "hot");
        for pid in agent_pids(&lab.machine) {
            let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
            kill_process(pid, Signal::STOP).unwrap();
        }
        let turn = lab.machine.turn(&["-s", "hot", "hello"]);
        assert_failed_in_time(lab, &turn, reason);
        assert_session_continues(lab, "hot");
        serving.stop().assert_code(0);
        assert_processes_gone(&lab.machine);
    });
}

#[test]
fn real_a13_silence_between_events_is_a_prompt_failure() {
    on_each_version(|lab| {
        let name = "inter_event_silence_timeout";
        lab.configure_bridge(&["enabled: true", &format!("{name}: 3")]);
        let turn = lab.machine.turn(&["-s", "chat", "HANG_BODY"]);
        assert_failed_in_time(lab, &turn, &format!("{name} while streaming"));
        assert!(!turn.text().is_empty());

        lab.configure_bridge(&["enabled: true"]);
        lab.machine.set("HERMES_CLAUDE_CODE_INTER_EVENT_SILENCE_TIMEOUT", "3");
        let turn = lab.machine.turn(&["-s", "other", "HANG_HEADERS"]);
        assert_failed_in_time(lab, &turn, &format!("{name} while waiting for the model"));
        assert_session_continues(lab, "other");
        // Many short silences do not add up to a timeout.
        let turn = lab.machine.turn(&["WORDS:6:1000"]);
        assert_eq!(turn.completed().text().trim(), "w0 w1 w2 w3 w4 w5");
    });
}

/// Asserts that the turn ended as a partial answer, not as an error.
#[track_caller]
fn assert_partial(turn: &Transcript, setting: &str) {
    let end = turn.end();
    assert_eq!(end["status"], "partial", "{turn:#?}");
    assert_eq!(end["reason"], setting);
    assert!(end.get("failure").is_none_or(serde_json::Value::is_null));
    assert!(!turn.text().is_empty(), "{turn:#?}");
}

#[test]
fn real_a14_a_budget_returns_the_partial_answer() {
    on_each_version(|lab| {
        let base = ["enabled: true", "auto_resume_budget_guard: false"];
        let budget = format!("budget_seconds: {}", generous_timeout_secs(lab));
        lab.configure_bridge(&[&base[..], &[&budget]].concat());
        let turn = lab.machine.turn(&["-s", "time", ENDLESS_PROMPT]);
        assert_partial(&turn, "budget_seconds");
        assert!(turn.text().starts_with("w0 w1"));
        assert_processes_gone(&lab.machine);

        lab.configure_bridge(&base);
        lab.machine.set("HERMES_CLAUDE_CODE_BUDGET_TOOL_COUNT", "2");
        let turn = lab.machine.turn(&["-s", "tools", "ROUNDS:6"]);
        assert_partial(&turn, "budget_tool_count");
        let ran = turn.of_type("tool.finished");
        let ok = ran.iter().filter(|one| one["ok"] == true).count();
        assert!((2..=3).contains(&ok), "the third is stopped: {turn:#?}");
        assert_eq!(notices(&turn, "budget_reached"), 1);
        assert_eq!(notices(&turn, "resumed"), 0);
        let ran = lab.machine.angelia(&["run", "-s", "tools", "ECHO:and on"]);
        ran.assert_code(0).assert_stdout("and on");
    });
}

#[test]
fn real_a15_a_turn_that_used_its_budget_goes_on_by_itself() {
    on_each_version(|lab| {
        let lines = ["enabled: true", "permissions: unattended"];
        lab.configure_bridge(&[&lines[..], &["budget_tool_count: 2"]].concat());
        let turn = lab.machine.turn(&["ROUNDS:3"]);
        assert_eq!(notices(turn.completed(), "resumed"), 1);
        let whole = turn.text();
        assert!(
            whole.contains("I will call a tool") && whole.contains("Hello from"),
            "both segments: {whole}"
        );

        // Only the number of continuations ends it.
        let input = json!({"command": "echo again", "description": "never enough"});
        lab.server.respond_with(move |_| {
            let (name, input) = ("Bash".to_owned(), input.clone());
            Some(Reply::message(vec![
                ReplyBlock::Text("once more".into()),
                ReplyBlock::Tool { name, input },
            ]))
        });
        let before = lab.server.model_requests().len();
        lab.machine.set("HERMES_CLAUDE_CODE_AUTO_RESUME_MAX_RESUMES", "2");
        let turn = lab.machine.turn(&["-s", "long", "work without end"]);
        assert_partial(&turn, "budget_tool_count");
        assert_eq!(notices(&turn, "resumed"), 2);
        assert_eq!(turn.of_type("turn.started").len(), 1);
        let sent = lab.last_request().json()["messages"].to_string();
        assert!(sent.contains("work without end"), "the same conversation");
        assert_eq!(sent.matches("Continue where you left off.").count(), 2);
        // In every segment the complete answers are counted, 25 tokens each.
        let answers = lab.server.model_requests().len() - before;
        let used = turn.end()["usage"]["output_tokens"].as_u64().unwrap();
        let most = 25 * answers as u64;
        assert!((25 * 6..=most).contains(&used), "{used} of {answers}");
    });
}

#[test]
fn real_a15_an_error_is_not_a_budget() {
    on_each_version(|lab| {
        lab.configure_bridge(&["enabled: true", "budget_tool_count: 2"]);
        let turn = lab.machine.turn(&["ROUNDS:1 STATUS:400"]);
        turn.failed("invalid");
        assert_eq!(notices(&turn, "resumed"), 0);
        for request in lab.server.model_requests() {
            let sent = request.json()["messages"].to_string();
            assert!(!sent.contains("Continue where you left off."), "{sent}");
        }
    });
}
