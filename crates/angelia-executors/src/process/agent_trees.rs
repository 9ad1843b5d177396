//! The agents that this process has started, as seen in the process table: each agent with its
//! descendants and the memory that they use.

use std::collections::HashMap;

use rustix::process::{Pid, getpid};

use super::{
    mark::{COMMAND_PREFIX, HomeId, ProcessMark},
    os::{self, ProcessRow},
};

/// An agent's process with its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentTree {
    pub mark: ProcessMark,
    pub pid: u32,
    /// The name of the root process's program.
    pub program: String,
    /// The number of processes in the tree.
    pub processes: usize,
    /// The resident memory of the whole tree, as `ps` shows it.
    pub rss_bytes: u64,
}

/// Lists the agents that this process has started for a home, from the process table.
pub fn agent_trees(home: &HomeId) -> Vec<AgentTree> {
    let rows = os::list_processes();
    let mut children: HashMap<Pid, Vec<&ProcessRow>> = HashMap::new();
    for row in &rows {
        if let Some(parent) = row.parent {
            children.entry(parent).or_default().push(row);
        }
    }
    let ours = children.get(&getpid()).map(Vec::as_slice).unwrap_or_default();
    let mut trees: Vec<_> = ours.iter().filter_map(|row| tree(row.pid, home, &children)).collect();
    trees.sort_by_key(|tree| tree.pid);
    trees
}

fn tree(root: Pid, home: &HomeId, children: &HashMap<Pid, Vec<&ProcessRow>>) -> Option<AgentTree> {
    let mark = os::mark_of(root)?;
    if mark.home != *home || mark.agent.as_str().starts_with(COMMAND_PREFIX) {
        return None;
    }
    let (mut processes, mut rss_bytes) = (0, 0);
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        processes += 1;
        rss_bytes += os::resident_bytes(pid).unwrap_or_default();
        let below = children.get(&pid).map(Vec::as_slice).unwrap_or_default();
        open.extend(below.iter().map(|row| row.pid));
    }
    let pid = u32::try_from(root.as_raw_nonzero().get()).ok()?;
    let program = os::program_name(root).unwrap_or_default();
    Some(AgentTree { mark, pid, program, processes, rss_bytes })
}
