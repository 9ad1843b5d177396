//! Work delegated by the owner's own client, with a daemon and without.

use serde_json::{Value, json};

use crate::{
    agent_processes::agent_pids,
    client::{self, call, session_in},
    machine::{Machine, until},
};

const PROFILES: &str = "\
profiles:
  default:
    executor: parrot
    delegate_to: [helper]
  helper: {executor: parrot}
  alone: {executor: parrot}
";

fn machine() -> Machine {
    let machine = Machine::new();
    machine.configure(PROFILES);
    machine
}

fn task(profile: &str, task: &str) -> Value {
    call("delegate", &json!({"profile": profile, "task": task}))
}

#[test]
fn the_tools_are_named_described_and_the_same_with_and_without_a_daemon() {
    let machine = machine();
    let steps = [json!({"list": true})];
    let without = client::run(&machine, &[], &steps);
    let tools = without[0].raw()["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "delegate",
            "sessions_list",
            "sessions_show",
            "approvals_pending",
            "bus_send",
            "bus_status",
            "bus_info"
        ]
    );
    let delegate = &tools[0];
    let about = delegate["description"].as_str().unwrap();
    assert!(about.contains("`helper` (parrot)"), "{about}");
    let schema = &delegate["inputSchema"];
    assert_eq!(schema["properties"]["profile"]["enum"], json!(["helper"]));
    assert_eq!(schema["required"], json!(["profile", "task"]));
    // D46: target, type and text are required, the channel is not.
    let required = &tools[4]["inputSchema"]["required"];
    assert_eq!(*required, json!(["target", "type", "text"]));
    let _serving = machine.serve();
    let with = client::run(&machine, &[], &steps);
    assert_eq!(with[0].raw(), without[0].raw());
}

#[test]
fn without_a_daemon_the_turn_runs_in_the_server_itself() {
    let machine = machine();
    delegates_and_goes_on(&machine);
    until("nothing is left", || agent_pids(&machine).is_empty());
}

#[test]
fn with_a_daemon_the_turn_runs_there() {
    let machine = machine();
    let serving = machine.serve();
    delegates_and_goes_on(&machine);
    serving.stop().assert_code(0);
    until("nothing is left", || agent_pids(&machine).is_empty());
}

#[track_caller]
fn delegates_and_goes_on(machine: &Machine) {
    let first = client::run(machine, &[], &[task("helper", "hello there\n!tool Look 500\n!who")]);
    let text = first[0].assert_success();
    assert!(text.contains("turn 1 of this process"), "{text}");
    assert!(text.contains(": completed]"), "{text}");
    let progress = first[0].progress();
    assert!(progress.iter().any(|said| said.starts_with("parrot began")), "{progress:?}");
    assert!(progress.iter().any(|said| said.starts_with("Look")), "{progress:?}");
    let session = session_in(&text);
    let again = json!({"profile": "helper", "task": "!who", "session": session});
    let second = client::run(machine, &[], &[call("delegate", &again)]);
    assert_eq!(session_in(&second[0].assert_success()), session);
    let turns = machine.list("turns");
    assert_eq!(turns.len(), 2);
    assert!(turns.iter().all(|turn| turn["status"] == "completed"));
    assert_eq!(machine.list("sessions")[0]["profile"], "helper");
}

#[test]
fn what_may_not_be_is_refused_in_words() {
    let machine = machine();
    let unknown_session = json!({"profile": "helper", "task": "x", "session": "nonsense"});
    let missing = json!({"profile": "helper"});
    let odd = json!({"profile": "helper", "task": "x", "shell": "rm"});
    let steps = [
        task("alone", "x"),
        task("nobody", "x"),
        task("helper", "  "),
        call("delegate", &unknown_session),
        call("delegate", &missing),
        call("delegate", &odd),
        call("bash", &json!({"command": "true"})),
    ];
    let answers = client::run(&machine, &[], &steps);
    answers[0]
        .assert_tool_error("profile `default` may not hand work to `alone`; it may use: helper");
    answers[1].assert_tool_error("may not hand work to `nobody`");
    answers[2].assert_tool_error("there is nothing to do");
    answers[3].assert_tool_error("there is no session `nonsense`");
    answers[4].assert_tool_error("missing field `task`");
    answers[5].assert_tool_error("unknown field `shell`");
    let threw = answers[6].raw()["threw"].as_str().unwrap();
    assert!(threw.contains("there is no tool `bash`"), "{threw}");
    assert_eq!(machine.list("turns").len(), 0);

    let answers = client::run(&machine, &["--profile", "alone"], &[task("helper", "x")]);
    answers[0].assert_tool_error("it may hand work to nobody");
    machine
        .angelia(&["mcp", "--profile", "nobody"])
        .assert_code(2)
        .assert_stderr("there is no profile `nobody`");
}

#[test]
fn a_failed_turn_is_an_error_with_the_text_so_far() {
    let machine = machine();
    let _serving = machine.serve();
    let steps = [
        task("helper", "said before\n!tool Look\n!fail server"),
        task("helper", "said before\n!tool Look\n!die"),
    ];
    for answer in client::run(&machine, &[], &steps) {
        let text = answer.assert_tool_error("the turn failed: ");
        assert!(text.contains("said before"), "{text}");
        assert!(text.contains(": failed]"), "{text}");
    }
}

#[test]
fn a_call_that_is_given_up_interrupts_its_turn() {
    for daemon in [true, false] {
        let machine = machine();
        let _serving = daemon.then(|| machine.serve());
        let hangs = json!({
            "call": "delegate",
            "with": {"profile": "helper", "task": "!tool Look\n!hang"},
            "abort_on": "Look",
        });
        // The server continues with the next request.
        let steps = [hangs, task("helper", "still here")];
        let answers = client::run(&machine, &[], &steps);
        assert!(answers[0].raw()["threw"].is_string(), "{answers:?}");
        assert!(answers[1].assert_success().contains("still here"));
        until("the turn is interrupted", || {
            let turns = machine.list("turns");
            turns.iter().any(|turn| turn["status"] == "interrupted")
        });
    }
}

#[test]
fn a_text_of_a_megabyte_comes_and_goes() {
    let machine = machine();
    let _serving = machine.serve();
    let text = "x".repeat(1 << 20);
    let steps = [task("helper", &text), task("helper", "!words 100000")];
    let answers = client::run(&machine, &[], &steps);
    assert!(answers[0].assert_success().contains("xxxx"));
    assert!(answers[1].assert_success().len() > 500_000);
}
