//! A session has one owner process at a time.

use serde_json::json;

use crate::{
    host::{Host, assert_error, assert_final, run_request},
    machine::Machine,
};

#[test]
fn a_session_that_another_process_has_is_refused_by_name() {
    let machine = Machine::new();
    let mut first = Host::start(&machine, &[]);
    first.send(&run_request("r", "s", "!hang"));
    first.read_until_type("run_started");
    let mut second = Host::start(&machine, &[]);
    let events = second.run("r", "s", "hello");
    let error = assert_error(&events, "session_held");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("angelia bridge"), "{message}");
    assert!(message.contains(&first.pid().to_string()), "{message}");
    // Other sessions are free, and this one is free once its owner has exited.
    assert_final(&second.run("r", "other", "hello"), "completed");
    first.shut_down();
    assert_final(&second.run("r", "s", "hello"), "completed");
    second.shut_down();
}

#[test]
fn one_that_was_killed_has_left_nothing_behind() {
    let machine = Machine::new();
    let mut first = Host::start(&machine, &[]);
    first.send(&run_request("r", "s", "said\n!tool Wait\n!hang"));
    first.read_until_type("tool_finished");
    first.signal(rustix::process::Signal::KILL);
    drop(first);
    let mut second = Host::start(&machine, &[]);
    assert_final(&second.run("r", "s", "hello"), "completed");
    second.send(&json!({"type": "shutdown"}));
    assert_eq!(second.wait_for_exit().code, Some(0));
    let turns = machine.list("turns");
    let states: Vec<_> = turns.iter().map(|turn| turn["status"].clone()).collect();
    assert_eq!(states, ["completed", "failed"], "newest first");
    assert!(crate::agent_processes::agent_pids(&machine).is_empty());
}
