//! The resources a daemon uses: processes, file descriptors, memory, and its own metrics.

use std::{collections::HashMap, fmt, fs, path::Path};

use angelia_testkit::{benchmark::process_usage, process_table};
use rustix::process::{Pid, Signal, kill_process};

use crate::{raw_client::get, seeded_random::SeededRandom};

/// The resources at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceUsage {
    pub(crate) descendants: usize,
    pub(crate) descriptors: usize,
    pub(crate) kilobytes: u64,
    pub(crate) metrics: HashMap<String, f64>,
}

impl fmt::Display for ResourceUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { descendants, descriptors, kilobytes, .. } = self;
        let tasks = self.tasks();
        write!(
            f,
            "{descendants} processes, {descriptors} descriptors, {kilobytes} kB, {tasks} tasks"
        )
    }
}

impl ResourceUsage {
    pub(crate) fn measure(pid: u32, socket: &Path) -> Self {
        Self {
            descendants: descendants(pid).len(),
            descriptors: descriptors(pid),
            kilobytes: process_usage::resident_kilobytes(pid).unwrap().into(),
            metrics: metrics(socket),
        }
    }

    pub(crate) fn gauge(&self, name: &str) -> f64 {
        self.metrics.get(name).copied().unwrap_or_default()
    }

    /// Reports whether no work is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        let under_way = [
            "angelia_turns{state=\"queued\"}",
            "angelia_turns{state=\"running\"}",
            "angelia_turns{state=\"awaiting_tool_result\"}",
            "angelia_agents{state=\"busy\"}",
            "angelia_agents{state=\"idle\"}",
            "angelia_agents_wanted",
            "angelia_approvals_pending",
            "angelia_sessions_live",
        ];
        under_way.iter().all(|name| self.gauge(name) == 0.0)
    }

    pub(crate) fn tasks(&self) -> f64 {
        let groups = ["engine", "http"];
        let names = groups.map(|group| format!("angelia_tasks{{group=\"{group}\"}}"));
        names.iter().map(|name| self.gauge(name)).sum()
    }
}

fn metrics(socket: &Path) -> HashMap<String, f64> {
    let text = get(socket, "/metrics");
    let series = text.lines().filter(|line| !line.starts_with('#'));
    let values = series.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    values.collect()
}

/// The most file descriptors of the store: two for each connection (a writer, a checkpointer, four
/// readers, and one for each of at most four lookup threads), and one shared by all.
const MAX_STORE_DESCRIPTORS: usize = 2 * (1 + 1 + 4 + 4) + 1;

/// Counts the file descriptors without those of the store, which depend on the number of concurrent
/// readers so far.
fn descriptors(pid: u32) -> usize {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let leads_to_the_store = |entry: &fs::DirEntry| {
        let leads = fs::read_link(entry.path()).unwrap_or_default();
        leads.to_string_lossy().contains("state.db")
    };
    let (stores, others): (Vec<_>, Vec<_>) = all.partition(leads_to_the_store);
    let stores = stores.len();
    assert!(stores <= MAX_STORE_DESCRIPTORS, "{stores} lead to the store");
    others.len()
}

/// Returns all descendants of the daemon, except the process that ends them if the daemon is killed.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        let children = process_table::children(parent).into_iter();
        let children = children.filter(|child| !process_table::is_owner_watch(*child));
        let children = children.map(i32::cast_unsigned);
        next.extend(children.inspect(|child| found.push(*child)));
    }
    found
}

/// Kills one of the daemon's agents; returns `false` if there was none.
pub(crate) fn kill_an_agent(pid: u32, chance: &mut SeededRandom) -> bool {
    let agents = descendants(pid);
    if agents.is_empty() {
        return false;
    }
    let agent = chance.one_of(&agents);
    let agent = Pid::from_raw(agent.try_into().unwrap()).unwrap();
    // The agent may have exited by itself.
    kill_process(agent, Signal::KILL).is_ok()
}
