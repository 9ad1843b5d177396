//! Makes every agent of a machine lose its own transcripts, as its cleaner does after some weeks.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    agent_processes::agent_pids,
    machine::{Machine, until},
};

/// Kills the machine's agents, which still know their conversations, and removes every transcript.
pub(crate) fn lose_transcripts(machine: &Machine) {
    let agents = agent_pids(machine);
    for pid in &agents {
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        // It may have ended meanwhile.
        let _gone = kill_process(pid, Signal::KILL);
    }
    // A process is in the table until its owner has seen its exit.
    let is_reaped = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    until("no agent is left", || agents.iter().all(is_reaped) && agent_pids(machine).is_empty());
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
