//! Finds the processes that carry an agent's mark (an environment variable) by reading `/proc`.

use std::{collections::BTreeSet, fs, path::Path};

const MARK_VARIABLE: &str = "ANGELIA_AGENT";

/// Returns every living process whose mark starts with `mark`: `<home id>:<owner id>:`.
pub fn find_marked(mark: &str) -> BTreeSet<i32> {
    let mark = format!("{MARK_VARIABLE}={mark}");
    let table = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = table.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable.starts_with(mark.as_bytes()))
    })
    .collect()
}

/// Returns those marked processes that this process has started itself, without the processes
/// that the agents have started.
pub fn find_agents(mark: &str) -> BTreeSet<i32> {
    let ours = std::process::id().to_string();
    let mut pids = find_marked(mark);
    pids.retain(|pid| parent_pid(*pid).as_ref() == Some(&ours));
    pids
}

pub(crate) fn parent_pid(pid: i32) -> Option<String> {
    stat_field(&Path::new("/proc").join(pid.to_string()), 1)
}

/// Returns a field of a process's or thread's `stat` file; field 0 is the state.
pub(crate) fn stat_field(folder: &Path, field: usize) -> Option<String> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The program's name before the state may contain anything, also spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(field).map(str::to_owned)
}
