//! Agents that misbehave: programs in place of the real one that print garbage, flood, fall silent
//! or die. The turn fails with a reason, the record is whole, and the next turn works.

use std::{fs, os::unix::fs::PermissionsExt as _};

use angelia_testkit::programs;

use crate::{agent_processes::agent_pids, machine::Machine, transcript::Transcript};

/// Reads a line and answers it as a control request.
const INITIALIZE: &str = r#"
read -r line
id=$(printf '%s' "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{"commands":[],"models":[],"account":{}}}}\n' "$id"
"#;

/// Returns a machine with a script in place of the agent; `script` runs when the agent is started
/// for a conversation.
fn machine_with(script: &str) -> Machine {
    let machine = Machine::with_shell();
    let program = machine.place.root().join("claude");
    let fake = programs::fake_agent().unwrap();
    let text = format!(
        "#!/bin/sh\nFAKE='{}'\ncase \"$*\" in --version) echo '2.1.325 (Claude Code)'; exit;; \
         *auth*status*) echo '{{\"loggedIn\":true}}'; exit;; esac\n{script}\n",
        fake.display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    machine.configure(&format!(
        "profiles: {{default: {{executor: claude, model: m, binary: {}}}}}",
        program.display()
    ));
    machine
}

fn assert_turn_fails(machine: &Machine, code: i32) -> Transcript {
    let ran = machine.angelia(&["run", "--json", "hello"]);
    ran.assert_code(code);
    let turn = Transcript::read(&ran.stdout);
    turn.failed("agent");
    let shown = machine.angelia(&["run", "hello"]);
    shown.assert_code(code).assert_stderr("angelia: ").assert_stderr("hint: ");
    for session in machine.list("sessions") {
        for turn in machine.export(session["id"].as_str().unwrap()) {
            turn.ends_once();
        }
    }
    assert!(agent_pids(machine).is_empty(), "nothing is left");
    turn
}

#[test]
fn one_that_ends_at_once() {
    for script in ["exit 0", "exit 3", "kill -9 $$", "echo 'no such option' >&2; exit 1"] {
        let machine = machine_with(script);
        let turn = assert_turn_fails(&machine, 1);
        let message = turn.end()["failure"]["message"].as_str().unwrap();
        assert!(message.contains("exited"), "{message}");
    }
}

#[test]
fn what_it_says_on_stderr_is_passed_on_without_secrets() {
    let machine =
        machine_with("echo 'bad key sk-ant-api03-abcdefghijklmnopqrstuvwxyz' >&2; exit 1");
    let message = assert_turn_fails(&machine, 1).end()["failure"]["message"].to_string();
    assert!(message.contains("bad key") && !message.contains("abcdefgh"), "{message}");
}

#[test]
fn one_that_prints_garbage() {
    for script in [
        "head -c 100000 /dev/urandom",
        "yes | head -c 20000",
        "echo '{}'; echo '[]'; echo '{\"type\":7}'; echo null; echo",
        "\"$FAKE\" long-line 68157440",
        "\"$FAKE\" half-line '{\"type\":\"sys'",
    ] {
        assert_turn_fails(&machine_with(script), 1);
        assert_turn_fails(&machine_with(&format!("{INITIALIZE}\nread -r turn\n{script}")), 1);
    }
}

/// An unreadable line does not end the turn; only the protocol's own end does.
#[test]
fn garbage_between_good_lines_does_no_harm() {
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"still here","session_id":"s","stop_reason":"end_turn","num_turns":1,"usage":{}}"#;
    let script = format!(
        "{INITIALIZE}\nread -r turn\nhead -c 5000 /dev/urandom; echo\n\"$FAKE\" long-line 68157440\n\
         echo '{{\"type\":\"news from tomorrow\",\"x\":[1]}}'\necho '{result}'\ncat >/dev/null"
    );
    let machine = machine_with(&script);
    let turn = machine.turn(&["hello"]);
    turn.completed();
    assert_eq!(turn.text(), "still here");
    let native = turn.of_type("native");
    assert!(native.iter().any(|event| event["name"] == "news from tomorrow"), "{turn:#?}");
}

#[test]
fn one_that_dies_in_the_middle_of_a_line() {
    let delta = r#"{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"half of the answer"}]},"session_id":"s"}"#;
    let script = format!(
        "{INITIALIZE}\nread -r turn\necho '{delta}'\nexec \"$FAKE\" half-line '{{\"type\":\"res' kill"
    );
    let turn = assert_turn_fails(&machine_with(&script), 1);
    assert_eq!(turn.text(), "half of the answer");
    let message = turn.end()["failure"]["message"].as_str().unwrap();
    assert!(message.contains("SIGKILL") || message.contains("signal"), "{message}");
}

/// The agent ignores everything and has a grandchild in another session.
#[test]
fn one_that_will_not_go() {
    let machine = machine_with(&format!(
        "{INITIALIZE}\nread -r turn\nexec \"$FAKE\" ignore-term fork 'setsid ignore-term hang' \
         say '{{\"type\":\"x\"}}' hang"
    ));
    let running = machine.start(&["run", "--json", "hello"]);
    running.wait_for_stdout("\"native\"");
    running.signal(rustix::process::Signal::INT);
    running.signal(rustix::process::Signal::TERM);
    let ran = running.wait();
    ran.assert_code(130);
    Transcript::read(&ran.stdout);
    assert!(agent_pids(&machine).is_empty(), "{:?}", agent_pids(&machine));
}

#[test]
fn a_bad_agent_does_not_hurt_the_daemon() {
    let machine = machine_with("head -c 100000 /dev/urandom; exit 3");
    let serving = machine.serve();
    for _ in 0..3 {
        machine.angelia(&["run", "hello"]).assert_code(1).assert_stderr("hint: ");
    }
    machine.angelia(&["doctor"]).assert_code(0).assert_stdout("running");
    serving.stop().assert_code(0);
}
