//! Finding and ending what agents leave behind, by the mark in its environment.
//!
//! Two moments: when an agent is closed (everything with exactly its mark) and at the next start
//! (everything of this home whose owner is dead). Never by name and never because a process has
//! become an orphan: the person's own agents look just like ours in everything but the mark.
//!
//! Descendants of a marked process are taken with it, which catches what a program started with an
//! environment of its own. The limit: a process that has lost both its mark *and* its marked
//! parent is not found, nor is one that hides its environment (it is not dumpable, or it has
//! overwritten it with a process title), unless it stayed in the agent's process group.

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
    mark::{HomeId, Mark, OwnerId},
    os::{self, Handle, Row},
};

/// Passes over the process table. Each ends what the one before has found; more than one is needed
/// when somebody was forking at that moment.
const MOST_PASSES: usize = 8;

/// How long a killed process may take to disappear.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// A process that was found and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    pub pid: u32,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left when asked.
    Terminated,
    Killed,
    /// It is still there: stuck in the kernel, or not ours to signal.
    Remains,
}

type Wanted = dyn Fn(&Mark) -> bool + Send + Sync;

/// Ends everything that carries exactly this mark.
pub async fn sweep_agent(mark: &Mark, ledger: &Path, grace: Duration) -> Vec<Swept> {
    let mark = mark.clone();
    sweep(Arc::new(move |found| *found == mark), ledger, grace).await
}

/// Ends everything of this home whose owner is no longer alive. The caller knows who lives (each
/// owner holds a lock); owner ids are never used twice, so the dead stay dead.
pub async fn sweep_dead_owners(
    home: &HomeId,
    ledger: &Path,
    grace: Duration,
    owner_alive: impl Fn(&OwnerId) -> bool + Send + Sync + 'static,
) -> Vec<Swept> {
    let home = home.clone();
    let wanted = move |found: &Mark| found.home == home && !owner_alive(&found.owner);
    sweep(Arc::new(wanted), ledger, grace).await
}

/// One pass that kills without asking and without waiting: for the drop of a child.
pub(super) fn kill_agent_now(mark: &Mark, ledger: &Path) {
    for handle in find(ledger, &|found| found == mark) {
        handle.signal(Signal::KILL);
    }
}

async fn sweep(wanted: Arc<Wanted>, ledger: &Path, grace: Duration) -> Vec<Swept> {
    let mut swept: Vec<Swept> = Vec::new();
    for pass in 0..MOST_PASSES {
        let handles = find_off_the_runtime(wanted.clone(), ledger.to_owned()).await;
        if handles.is_empty() {
            return swept;
        }
        // Whoever appears in a later pass was born while everybody else was told to leave.
        let grace = if pass == 0 { grace } else { Duration::ZERO };
        for ended in end(&handles, grace).await {
            swept.retain(|known| known.pid != ended.pid);
            swept.push(ended);
        }
    }
    tracing::warn!(?swept, "agent processes kept appearing during the sweep");
    swept
}

async fn find_off_the_runtime(wanted: Arc<Wanted>, ledger: PathBuf) -> Vec<Handle> {
    let search = spawn_blocking(move || find(&ledger, &*wanted));
    search.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the search for leftover agent processes did not finish");
        Vec::new()
    })
}

/// SIGTERM to all, then SIGKILL to who is left. The handles are of these very processes, so
/// whatever happens to their pids meanwhile cannot hit anybody else.
async fn end(handles: &[Handle], grace: Duration) -> Vec<Swept> {
    if !grace.is_zero() {
        for handle in handles {
            handle.signal(Signal::TERM);
            handle.signal(Signal::CONT);
        }
    }
    let asked_until = Instant::now() + grace;
    let mut ended = Vec::with_capacity(handles.len());
    let mut stubborn = Vec::new();
    for handle in handles {
        if timeout_at(asked_until, handle.gone()).await.is_ok() {
            ended.push(Swept { pid: raw(handle.pid()), fate: Fate::Terminated });
        } else {
            stubborn.push(handle);
        }
    }
    for handle in &stubborn {
        handle.signal(Signal::KILL);
    }
    let killed_until = Instant::now() + AFTER_KILL;
    for handle in stubborn {
        let gone = timeout_at(killed_until, handle.gone()).await.is_ok();
        let fate = if gone { Fate::Killed } else { Fate::Remains };
        ended.push(Swept { pid: raw(handle.pid()), fate });
    }
    ended
}

/// The marked processes and their descendants, without ourselves and our ancestors.
fn find(ledger: &Path, wanted: &dyn Fn(&Mark) -> bool) -> Vec<Handle> {
    let mut found = os::marked(ledger, wanted);
    if found.is_empty() {
        return found;
    }
    let table = os::table();
    let spared = lineage(getpid(), &table);
    found.retain(|handle| !spared.contains(&handle.pid()));

    let mut next = 0;
    while next < found.len() {
        let parent = found[next].pid();
        for row in table.iter().filter(|row| row.parent == Some(parent)) {
            let known = found.iter().any(|handle| handle.pid() == row.pid);
            if known || spared.contains(&row.pid) {
                continue;
            }
            if let Some(handle) = descendant(row, &found[next]) {
                found.push(handle);
            }
        }
        next += 1;
    }
    found
}

/// Holds on to a child of `parent`, if after taking hold it still is one: the table may have been
/// read while pids changed hands.
fn descendant(row: &Row, parent: &Handle) -> Option<Handle> {
    let handle = Handle::open(row.pid)?;
    let same = handle.row() == row && parent.is_current();
    (same && !os::is_released(row.pid)).then_some(handle)
}

/// A process and all its ancestors.
fn lineage(pid: Pid, table: &[Row]) -> Vec<Pid> {
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

fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_spare_our_ancestors_and_nobody_else() {
        let pid = |raw| Pid::from_raw(raw).unwrap();
        let start = os::start_time(getpid()).unwrap();
        let row = |raw, parent| Row { pid: pid(raw), parent: Pid::from_raw(parent), start };
        let table = [row(1, 0), row(10, 1), row(20, 10), row(21, 10), row(30, 20), row(40, 30)];
        assert_eq!(lineage(pid(30), &table), [pid(30), pid(20), pid(10), pid(1)]);
        assert_eq!(lineage(pid(99), &table), [pid(99)]);
        // A table that was read while pids changed hands may even be circular.
        let circle = [row(5, 6), row(6, 5)];
        assert_eq!(lineage(pid(5), &circle), [pid(5), pid(6)]);
    }

    /// The row was read of one process, the pid has since been given to another.
    #[test]
    fn a_descendant_must_still_be_the_one_in_the_table() {
        let parent = Handle::open(rustix::process::getppid().unwrap()).unwrap();
        let us = *Handle::open(getpid()).unwrap().row();
        assert!(descendant(&us, &parent).is_some());
        let recycled = Row { start: parent.row().start, ..us };
        assert!(descendant(&recycled, &parent).is_none() || recycled == us);
        let moved = Row { parent: Some(getpid()), ..us };
        assert!(descendant(&moved, &parent).is_none());
    }
}
