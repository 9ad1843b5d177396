//! Makes every agent of a machine lose its own transcripts, as its cleaner does after some weeks.

use std::{fs, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    agent_processes::agent_pids,
    machine::{Machine, until, within},
};

/// Kills the machine's agents, which still know their conversations, and removes every transcript.
pub(crate) fn lose_transcripts(machine: &Machine) {
    let agents = agent_pids(machine);
    for pid in &agents {
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        // It may have ended meanwhile.
        let _gone = kill_process(pid, Signal::KILL);
    }
    // A killed process loses its mark a moment before its owner can see its exit.
    let has_exited = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z') && threads <= 1)
    };
    until("no agent is left", || agents.iter().all(has_exited) && agent_pids(machine).is_empty());
    // The owner of a shared process sees its exit at once, others only when they use it again.
    let is_reaped = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    within(Duration::from_secs(1), || agents.iter().all(is_reaped));
    assert!(remove_jsonl(machine.place.root()) > 0, "no transcript was found");
}

fn remove_jsonl(folder: &Path) -> usize {
    let mut removed = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            removed += remove_jsonl(&path);
        } else if path.extension().is_some_and(|it| it == "jsonl") {
            fs::remove_file(&path).unwrap();
            removed += 1;
        }
    }
    removed
}
