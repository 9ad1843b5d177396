//! The processes that carry the agents' mark, found through `/proc`.

use std::{collections::BTreeSet, fs, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::ExecutorFixture;
use crate::{
    direct_session::{DEADLINE, wait_until},
    process_table::{self, command_line, parent_pid, stat_field},
};

/// Only Linux shows the environment of other processes. On other systems, checks that must find an
/// agent's process do nothing.
pub(super) const PROCESSES_VISIBLE: bool = cfg!(target_os = "linux");

/// Interval at which waiting loops read the process table.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Returns every live process that carries this fixture's mark.
pub(super) fn marked_pids(fixture: &impl ExecutorFixture) -> BTreeSet<i32> {
    process_table::find_marked(&fixture.mark())
}

/// Returns the marked processes that are agents: those started by us rather than by an agent.
pub(super) fn agent_pids(fixture: &impl ExecutorFixture) -> BTreeSet<i32> {
    process_table::find_agents(&fixture.mark())
}

pub(super) fn kill_agents(fixture: &impl ExecutorFixture) {
    signal(&agent_pids(fixture), Signal::KILL);
}

/// Stops every agent with SIGSTOP and waits until all its threads have stopped, because one thread
/// takes the signal while the others keep running for a moment.
pub(super) async fn stop_agents(fixture: &impl ExecutorFixture) {
    let agents = agent_pids(fixture);
    signal(&agents, Signal::STOP);
    let stands_still = |pid: &i32| {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        let mut threads = threads.into_iter().flatten().flatten();
        threads.all(|thread| stat_field(&thread.path(), 0).is_none_or(|state| state == "T"))
    };
    wait_until("an agent does not stand still", || agents.iter().all(stands_still)).await;
}

fn signal(pids: &BTreeSet<i32>, signal: Signal) {
    assert!(!pids.is_empty(), "no agent is running");
    for pid in pids {
        kill_process(Pid::from_raw(*pid).unwrap(), signal).unwrap();
    }
}

/// Waits until every tool process has exited and only agents are left.
pub(super) async fn wait_for_only_agents(fixture: &impl ExecutorFixture) {
    let until = Instant::now() + DEADLINE;
    loop {
        let agents = agent_pids(fixture);
        let mut others = marked_pids(fixture);
        others.retain(|pid| !agents.contains(pid) && !is_helper_program(fixture, *pid));
        if others.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "still there: {:#?}", describe(&others));
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns whether the process is one of the agent's helper programs.
fn is_helper_program(fixture: &impl ExecutorFixture, pid: i32) -> bool {
    let line = command_line(pid);
    fixture.helper_programs().iter().any(|part| line.contains(part))
}

pub(super) fn assert_no_process(fixture: &impl ExecutorFixture) {
    let left = marked_pids(fixture);
    assert!(left.is_empty(), "still running: {:#?}", describe(&left));
}

fn describe(pids: &BTreeSet<i32>) -> Vec<String> {
    let lines = pids
        .iter()
        .map(|pid| format!("{pid}, child of {:?}: {}", parent_pid(*pid), command_line(*pid)));
    lines.collect()
}
