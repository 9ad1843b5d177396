//! The end of a bridge: orderly, whatever triggers it.

use rustix::process::Signal;
use serde_json::json;

use crate::{
    agent_processes::agent_pids,
    host::{BridgeExit, Host, assert_final, run_request, types},
    machine::{Machine, until},
};

const SAYS_AND_HANGS: &str = "said before\n!tool Wait\n!hang";

/// Starts a run in each of three sessions.
fn busy_host(machine: &Machine) -> Host {
    let mut host = Host::start(machine, &[]);
    for n in 0..3 {
        host.send(&run_request(&format!("r{n}"), &format!("s{n}"), SAYS_AND_HANGS));
        host.read_until_type("tool_finished");
    }
    host
}

/// Asserts that all runs were interrupted and their ends reported.
#[track_caller]
fn assert_all_turns_ended(machine: &Machine, end: &BridgeExit) {
    assert_eq!(end.code, Some(0), "{end:#?}");
    assert_eq!(end.stderr, "");
    let finals = end.events.iter().filter(|event| event["type"] == "final");
    let mut names = Vec::new();
    for event in finals {
        assert_final(std::slice::from_ref(event), "interrupted");
        assert!(event["response"].as_str().unwrap().contains("said before"), "{event}");
        names.push(event["request_id"].as_str().unwrap());
    }
    names.sort_unstable();
    assert_eq!(names, ["r0", "r1", "r2"], "{end:#?}");
    assert!(agent_pids(machine).is_empty(), "nothing is left");
    for turn in machine.list("turns") {
        assert_eq!(turn["status"], "interrupted");
    }
}

#[test]
fn b05_runs_are_interrupted_before_the_last_word() {
    let machine = Machine::new();
    let mut host = busy_host(&machine);
    host.send(&json!({"type": "exit"}));
    let end = host.wait_for_exit();
    assert_all_turns_ended(&machine, &end);
    assert_eq!(types(&end.events).last(), Some(&"shutdown_ack"), "{end:#?}");
}

#[test]
fn the_end_of_input_is_the_end() {
    let machine = Machine::new();
    let mut host = busy_host(&machine);
    host.close_stdin();
    let end = host.wait_for_exit();
    assert_all_turns_ended(&machine, &end);
    assert!(!types(&end.events).contains(&"shutdown_ack"), "nobody asked");
}

#[test]
fn signals_end_it_in_good_order() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let machine = Machine::new();
        let host = busy_host(&machine);
        host.signal(signal);
        assert_all_turns_ended(&machine, &host.wait_for_exit());
    }
}

#[test]
fn a_host_that_has_gone_is_noticed_when_something_is_to_be_told() {
    let machine = Machine::new();
    let mut host = Host::start_unread(&machine, &[]);
    host.send(&run_request("r", "s", "!hang"));
    until("the run has begun", || {
        machine.list("turns").iter().any(|turn| turn["status"] == "running")
    });
    host.stop_reading();
    host.send(&json!({"type": "ping"}));
    let end = host.wait_for_exit();
    assert_eq!((end.code, &*end.stderr), (Some(0), ""));
    assert!(agent_pids(&machine).is_empty());
    let turns = machine.list("turns");
    assert_eq!(turns[0]["status"], "interrupted");
}
