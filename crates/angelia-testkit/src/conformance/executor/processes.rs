//! Who carries the agents' mark, as `/proc` tells it.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::{ExecutorFixture, session::DEADLINE};

/// Other systems do not show a process's environment; there, checks that must find an agent's
/// process do nothing.
pub(super) const ARE_VISIBLE: bool = cfg!(target_os = "linux");

const VARIABLE: &str = "ANGELIA_AGENT";

/// How often the process table is looked at while something is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Every living process that carries a mark of this fixture's.
pub(super) fn marked(fixture: &impl ExecutorFixture) -> BTreeSet<i32> {
    let mark = format!("{VARIABLE}={}", fixture.mark());
    let table = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = table.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable.starts_with(mark.as_bytes()))
    })
    .collect()
}

/// Those of them that are agents: started by us, not by an agent.
pub(super) fn agents(fixture: &impl ExecutorFixture) -> BTreeSet<i32> {
    let ours = i32::try_from(std::process::id()).unwrap();
    let mut pids = marked(fixture);
    pids.retain(|pid| parent(*pid) == Some(ours));
    pids
}

fn parent(pid: i32) -> Option<i32> {
    stat(&Path::new("/proc").join(pid.to_string()), 1)?
        .parse()
        .ok()
}

/// A field of `stat`, counted from the state.
fn stat(folder: &Path, field: usize) -> Option<String> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name before it may contain anything, also spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(field).map(str::to_owned)
}

pub(super) fn kill_agents(fixture: &impl ExecutorFixture) {
    signal(&agents(fixture), Signal::KILL);
}

/// Makes every agent stand still. One of its threads takes the signal, and until then the others
/// go on.
pub(super) async fn stop_agents(fixture: &impl ExecutorFixture) {
    let agents = agents(fixture);
    signal(&agents, Signal::STOP);
    let stands_still = |pid: &i32| {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        let mut threads = threads.into_iter().flatten().flatten();
        threads.all(|thread| stat(&thread.path(), 0).is_none_or(|state| state == "T"))
    };
    eventually("an agent does not stand still", || {
        agents.iter().all(stands_still)
    })
    .await;
}

fn signal(pids: &BTreeSet<i32>, signal: Signal) {
    assert!(!pids.is_empty(), "no agent is running");
    for pid in pids {
        kill_process(Pid::from_raw(*pid).unwrap(), signal).unwrap();
    }
}

/// Waits for a condition of the outside world.
pub(super) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        sleep(LOOK_EVERY).await;
    }
}

/// Waits until the tools of an agent have gone, and only agents are left.
pub(super) async fn only_agents_are_left(fixture: &impl ExecutorFixture) {
    let until = Instant::now() + DEADLINE;
    loop {
        let agents = agents(fixture);
        let mut others = marked(fixture);
        others.retain(|pid| !agents.contains(pid) && !is_part(fixture, *pid));
        if others.is_empty() {
            return;
        }
        assert!(
            Instant::now() < until,
            "still there: {:#?}",
            describe(&others)
        );
        sleep(LOOK_EVERY).await;
    }
}

/// Is it a program that the agent is made of?
fn is_part(fixture: &impl ExecutorFixture, pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    fixture.parts().iter().any(|part| line.contains(part))
}

pub(super) fn assert_none(fixture: &impl ExecutorFixture) {
    let left = marked(fixture);
    assert!(left.is_empty(), "still running: {:#?}", describe(&left));
}

fn describe(pids: &BTreeSet<i32>) -> Vec<String> {
    let lines = pids.iter().map(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        format!("{pid}, child of {:?}: {line}", parent(*pid))
    });
    lines.collect()
}
