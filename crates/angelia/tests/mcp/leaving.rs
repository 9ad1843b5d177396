//! Clients that disconnect in the middle of a call.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    agent_processes::{agent_pids, command_line},
    client,
    machine::{Machine, until, within},
};

fn machine() -> Machine {
    let machine = Machine::new();
    machine.configure(
        "profiles:\n  default: {executor: parrot, delegate_to: [helper]}\n  helper: {executor: parrot, warm: 0}\n",
    );
    machine
}

fn start_hanging_call(machine: &Machine) -> crate::machine::RunningCommand {
    let hangs = json!({
        "call": "delegate",
        "with": {"profile": "helper", "task": "said before\n!tool Look\n!hang"},
    });
    let client = client::start(machine, &[], &[hangs]);
    until("the turn runs", || {
        let turns = machine.list("turns");
        turns.iter().any(|turn| turn["status"] == "running")
    });
    client
}

fn is_interrupted(machine: &Machine) -> bool {
    let turns = machine.list("turns");
    turns.len() == 1 && turns[0]["status"] == "interrupted"
}

#[test]
fn a_client_that_is_killed_takes_its_turn_with_it() {
    for daemon in [true, false] {
        let machine = machine();
        let _serving = daemon.then(|| machine.serve());
        let client = start_hanging_call(&machine);
        client.signal(Signal::KILL);
        client.wait();
        until("the turn is interrupted", || is_interrupted(&machine));
        until("nothing is left", || agent_pids(&machine).is_empty() || daemon);
    }
}

#[test]
fn a_server_that_is_killed_takes_its_turn_with_it_too() {
    let machine = machine();
    let _serving = machine.serve();
    let _client = start_hanging_call(&machine);
    let server = server_pid(&machine);
    kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    until("the turn is interrupted", || is_interrupted(&machine));
}

#[test]
fn a_server_that_is_told_to_end_does_so_in_order() {
    let machine = machine();
    let _client = start_hanging_call(&machine);
    let server = server_pid(&machine);
    kill_process(Pid::from_raw(server).unwrap(), Signal::TERM).unwrap();
    until("the turn is interrupted", || is_interrupted(&machine));
    until("nothing is left", || agent_pids(&machine).is_empty());
    assert!(within(Duration::from_secs(30), || !is_alive(server)));
}

fn is_alive(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/cmdline")).exists()
        && !command_line(pid.unsigned_abs()).is_empty()
}

/// Returns the pid of the `angelia mcp` in this machine's folder.
fn server_pid(machine: &Machine) -> i32 {
    let work = machine.work().canonicalize().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let found = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let is_there = std::fs::read_link(entry.path().join("cwd")).ok()? == work;
        let line = command_line(pid.unsigned_abs());
        (is_there && line.contains("angelia mcp")).then_some(pid)
    });
    found.into_iter().next().unwrap()
}
