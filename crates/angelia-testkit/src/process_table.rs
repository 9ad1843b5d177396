//! Reads `/proc`: finds the processes that carry an agent's mark (an environment variable), and
//! returns facts about a process for tests. Works only on Linux.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const MARK_VARIABLE: &str = "ANGELIA_AGENT";

/// Returns every live process whose mark starts with `mark`: `<home id>:<owner id>:`.
pub fn find_marked(mark: &str) -> BTreeSet<i32> {
    let mark = format!("{MARK_VARIABLE}={mark}");
    let marked = |pid: &i32| {
        // A zombie no longer has an environment.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable.starts_with(mark.as_bytes()))
    };
    pids().filter(marked).collect()
}

fn pids() -> impl Iterator<Item = i32> {
    let table = fs::read_dir("/proc").into_iter().flatten().flatten();
    table.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the marked processes that this process itself started, without those started by agents.
pub fn find_agents(mark: &str) -> BTreeSet<i32> {
    let ours = std::process::id().to_string();
    let mut pids = find_marked(mark);
    pids.retain(|pid| parent_pid(*pid).as_ref() == Some(&ours));
    pids
}

/// Returns the live children of a process.
pub fn children(parent: u32) -> Vec<i32> {
    let parent = parent.to_string();
    let lives = |pid: &i32| !matches!(state(*pid).as_deref(), None | Some("Z" | "X"));
    pids().filter(|pid| parent_pid(*pid).as_ref() == Some(&parent) && lives(pid)).collect()
}

/// Returns the command line, with spaces between its words.
pub fn command_line(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Returns the letter for the state of a process, such as `Z` for a zombie.
pub fn state(pid: i32) -> Option<String> {
    stat_field(&process_folder(pid), 0)
}

fn process_folder(pid: i32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

pub(crate) fn parent_pid(pid: i32) -> Option<String> {
    stat_field(&process_folder(pid), 1)
}

/// Returns a field of a process's or thread's `stat` file; field 0 is the state.
pub(crate) fn stat_field(folder: &Path, field: usize) -> Option<String> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The program's name, which precedes the state, may contain anything, even spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(field).map(str::to_owned)
}

/// Returns whether this is the process that ends Angelia's children after Angelia itself has died.
pub fn is_owner_watch(pid: i32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = command.split(|byte| *byte == 0).skip(1);
    arguments.next() == Some(b"__process") && arguments.next() == Some(b"watch-owner")
}
