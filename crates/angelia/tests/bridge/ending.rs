//! The end of a bridge: orderly, whatever triggers it.

use rustix::process::Signal;
use serde_json::json;

use crate::{
    agents::marked,
    host::{Ended, Host, ended, run, types},
    stage::{Machine, until},
};

const SAYS_AND_HANGS: &str = "said before\n!tool Wait\n!hang";

/// Starts a run in each of three sessions.
fn busy(machine: &Machine) -> Host {
    let mut host = Host::start(machine, &[]);
    for n in 0..3 {
        host.send(&run(&format!("r{n}"), &format!("s{n}"), SAYS_AND_HANGS));
        host.until_type("tool_finished");
    }
    host
}

/// Asserts that all runs were interrupted and their ends reported.
#[track_caller]
fn all_ended(machine: &Machine, end: &Ended) {
    assert_eq!(end.code, Some(0), "{end:#?}");
    assert_eq!(end.stderr, "");
    let finals = end.events.iter().filter(|event| event["type"] == "final");
    let mut names = Vec::new();
    for event in finals {
        ended(std::slice::from_ref(event), "interrupted");
        assert!(event["response"].as_str().unwrap().contains("said before"), "{event}");
        names.push(event["request_id"].as_str().unwrap());
    }
    names.sort_unstable();
    assert_eq!(names, ["r0", "r1", "r2"], "{end:#?}");
    assert!(marked(machine).is_empty(), "nothing is left");
    for turn in machine.list("turns") {
        assert_eq!(turn["status"], "interrupted");
    }
}

#[test]
fn b05_runs_are_interrupted_before_the_last_word() {
    let machine = Machine::new();
    let mut host = busy(&machine);
    host.send(&json!({"type": "exit"}));
    let end = host.end();
    all_ended(&machine, &end);
    assert_eq!(types(&end.events).last(), Some(&"shutdown_ack"), "{end:#?}");
}

#[test]
fn the_end_of_input_is_the_end() {
    let machine = Machine::new();
    let mut host = busy(&machine);
    host.close_stdin();
    let end = host.end();
    all_ended(&machine, &end);
    assert!(!types(&end.events).contains(&"shutdown_ack"), "nobody asked");
}

#[test]
fn signals_end_it_in_good_order() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let machine = Machine::new();
        let host = busy(&machine);
        host.signal(signal);
        all_ended(&machine, &host.end());
    }
}

#[test]
fn a_host_that_has_gone_is_noticed_when_something_is_to_be_told() {
    let machine = Machine::new();
    let mut host = Host::unread(&machine, &[]);
    host.send(&run("r", "s", "!hang"));
    until("the run has begun", || {
        machine.list("turns").iter().any(|turn| turn["status"] == "running")
    });
    host.stop_reading();
    host.send(&json!({"type": "ping"}));
    let end = host.end();
    assert_eq!((end.code, &*end.stderr), (Some(0), ""));
    assert!(marked(&machine).is_empty());
    let turns = machine.list("turns");
    assert_eq!(turns[0]["status"], "interrupted");
}
