//! Finds and terminates processes that agents leave behind, by the mark in their environment.
//!
//! A sweep runs when an agent is closed (for processes with exactly its mark) and at the next start
//! of angelia (for processes of this home whose owner is dead). Processes are never selected by
//! name or because they are orphans: only the mark distinguishes our agents from the user's own.
//!
//! Descendants of a marked process are swept with it, which catches programs that were started with
//! a different environment. A sweep does not find a process that has lost both its mark *and* its
//! marked parent, nor one that hides its environment (because it is not dumpable, or has
//! overwritten its environment with a process title), unless it stayed in the agent's process
//! group.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, getpid};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::{
    mark::{HomeId, OwnerId, ProcessMark},
    os::{self, ProcessHandle, ProcessRow},
};

/// The maximum number of passes over the process table. Each pass terminates the processes that it
/// finds. Further passes are needed if a process was forking at that moment.
const MAX_PASSES: usize = 8;

/// The longest wait for a killed process to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// A process that a sweep found, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweptProcess {
    pub pid: u32,
    pub outcome: SweepOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepOutcome {
    /// The process exited after SIGTERM.
    Terminated,
    Killed,
    /// The process still exists: it is stuck in the kernel, or we may not signal it.
    Remains,
}

type MarkFilter = dyn Fn(&ProcessMark) -> bool + Send + Sync;

/// Terminates every process that carries exactly this mark.
pub async fn sweep_agent(mark: &ProcessMark, ledger: &Path, grace: Duration) -> Vec<SweptProcess> {
    let mark = mark.clone();
    sweep(Arc::new(move |found| *found == mark), ledger, grace).await
}

/// Terminates every process of this home whose owner is no longer alive. The caller knows which
/// owners are alive, because each holds a lock. Owner ids are never reused, so a dead owner stays
/// dead.
pub async fn sweep_dead_owners(
    home: &HomeId,
    ledger: &Path,
    grace: Duration,
    owner_alive: impl Fn(&OwnerId) -> bool + Send + Sync + 'static,
) -> Vec<SweptProcess> {
    let home = home.clone();
    let wanted = move |found: &ProcessMark| found.home == home && !owner_alive(&found.owner);
    sweep(Arc::new(wanted), ledger, grace).await
}

/// Makes one pass with SIGKILL and does not wait. Used when a child is dropped.
pub(super) fn kill_agent_now(mark: &ProcessMark, ledger: &Path) {
    for handle in find_processes(ledger, &|found| found == mark) {
        handle.signal(Signal::KILL);
    }
}

async fn sweep(wanted: Arc<MarkFilter>, ledger: &Path, grace: Duration) -> Vec<SweptProcess> {
    let mut swept: Vec<SweptProcess> = Vec::new();
    for pass in 0..MAX_PASSES {
        let handles = find_on_blocking_pool(wanted.clone(), ledger.to_owned()).await;
        if handles.is_empty() {
            return swept;
        }
        // A process found in a later pass was forked while the others were being terminated, so it
        // is killed without a grace period.
        let grace = if pass == 0 { grace } else { Duration::ZERO };
        for ended in terminate_all(&handles, grace).await {
            swept.retain(|known| known.pid != ended.pid);
            swept.push(ended);
        }
    }
    tracing::warn!(?swept, "agent processes kept appearing during the sweep");
    swept
}

async fn find_on_blocking_pool(wanted: Arc<MarkFilter>, ledger: PathBuf) -> Vec<ProcessHandle> {
    let search = spawn_blocking(move || find_processes(&ledger, &*wanted));
    search.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the search for leftover agent processes did not finish");
        Vec::new()
    })
}

/// Sends SIGTERM to all processes, then SIGKILL to those that remain. A handle refers to one
/// process, so a reused pid is never hit.
async fn terminate_all(handles: &[ProcessHandle], grace: Duration) -> Vec<SweptProcess> {
    if !grace.is_zero() {
        for handle in handles {
            handle.signal(Signal::TERM);
            // A stopped process must be continued to receive SIGTERM.
            handle.signal(Signal::CONT);
        }
    }
    let asked_until = Instant::now() + grace;
    let mut ended = Vec::with_capacity(handles.len());
    let mut stubborn = Vec::new();
    for handle in handles {
        if timeout_at(asked_until, handle.wait_gone()).await.is_ok() {
            ended.push(SweptProcess {
                pid: raw_pid(handle.pid()),
                outcome: SweepOutcome::Terminated,
            });
        } else {
            stubborn.push(handle);
        }
    }
    for handle in &stubborn {
        handle.signal(Signal::KILL);
    }
    let killed_until = Instant::now() + KILL_TIMEOUT;
    for handle in stubborn {
        let gone = timeout_at(killed_until, handle.wait_gone()).await.is_ok();
        let fate = if gone { SweepOutcome::Killed } else { SweepOutcome::Remains };
        ended.push(SweptProcess { pid: raw_pid(handle.pid()), outcome: fate });
    }
    ended
}

/// Returns the matching processes and their descendants, excluding ourselves and our ancestors.
fn find_processes(ledger: &Path, wanted: &dyn Fn(&ProcessMark) -> bool) -> Vec<ProcessHandle> {
    let mut found = os::find_marked(ledger, wanted);
    if found.is_empty() {
        return found;
    }
    let table = os::list_processes();
    let spared = self_and_ancestors(getpid(), &table);
    found.retain(|handle| !spared.contains(&handle.pid()));

    let mut next = 0;
    while next < found.len() {
        let parent = found[next].pid();
        for row in table.iter().filter(|row| row.parent == Some(parent)) {
            let known = found.iter().any(|handle| handle.pid() == row.pid);
            if known || spared.contains(&row.pid) {
                continue;
            }
            if let Some(handle) = open_descendant(row, &found[next]) {
                found.push(handle);
            }
        }
        next += 1;
    }
    found
}

/// Opens a handle to a child of `parent`, then verifies that it is still that child, because pids
/// may have been reused while the table was read.
fn open_descendant(row: &ProcessRow, parent: &ProcessHandle) -> Option<ProcessHandle> {
    let handle = ProcessHandle::open(row.pid)?;
    let same = handle.row() == row && parent.is_current();
    (same && !os::is_released(row.pid)).then_some(handle)
}

/// Returns a process and all its ancestors.
fn self_and_ancestors(pid: Pid, table: &[ProcessRow]) -> Vec<Pid> {
    let mut line = vec![pid];
    let mut current = pid;
    while let Some(parent) = table.iter().find(|row| row.pid == current).and_then(|row| row.parent)
    {
        if line.contains(&parent) {
            break;
        }
        line.push(parent);
        current = parent;
    }
    line
}

fn raw_pid(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_spare_our_ancestors_and_nobody_else() {
        let pid = |raw| Pid::from_raw(raw).unwrap();
        let start = os::start_time(getpid()).unwrap();
        let row = |raw, parent| ProcessRow { pid: pid(raw), parent: Pid::from_raw(parent), start };
        let table = [row(1, 0), row(10, 1), row(20, 10), row(21, 10), row(30, 20), row(40, 30)];
        assert_eq!(self_and_ancestors(pid(30), &table), [pid(30), pid(20), pid(10), pid(1)]);
        assert_eq!(self_and_ancestors(pid(99), &table), [pid(99)]);
        // A table that was read while pids were reused may even be circular.
        let circle = [row(5, 6), row(6, 5)];
        assert_eq!(self_and_ancestors(pid(5), &circle), [pid(5), pid(6)]);
    }

    /// A row whose pid has since been reused no longer matches its process.
    #[test]
    fn a_descendant_must_still_be_the_one_in_the_table() {
        let parent = ProcessHandle::open(rustix::process::getppid().unwrap()).unwrap();
        let us = *ProcessHandle::open(getpid()).unwrap().row();
        assert!(open_descendant(&us, &parent).is_some());
        let recycled = ProcessRow { start: parent.row().start, ..us };
        assert!(open_descendant(&recycled, &parent).is_none() || recycled == us);
        let moved = ProcessRow { parent: Some(getpid()), ..us };
        assert!(open_descendant(&moved, &parent).is_none());
    }
}
