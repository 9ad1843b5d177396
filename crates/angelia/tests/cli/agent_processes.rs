//! Finds the agents' processes of a machine by their mark, as the product does.

use std::{fs, os::unix::ffi::OsStrExt as _};

use sha2::{Digest as _, Sha256};

use crate::machine::Machine;

/// Returns the pids of all living processes that carry this home's mark.
pub(crate) fn agent_pids(machine: &Machine) -> Vec<u32> {
    let mark = format!("ANGELIA_AGENT={}:", home_id(machine));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let read = |part: &str| fs::read(entry.path().join(part)).unwrap_or_default();
        let environment = read("environ");
        let carries =
            environment.split(|byte| *byte == 0).any(|one| one.starts_with(mark.as_bytes()));
        if carries && !is_dead(&read("stat")) {
            found.push(pid);
        }
    }
    found
}

/// Reports whether the process is a zombie, which only waits to be reaped.
fn is_dead(stat: &[u8]) -> bool {
    let state = String::from_utf8_lossy(stat);
    state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

pub(crate) fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Returns the home's id in the mark: the hash of its path.
pub(crate) fn home_id(machine: &Machine) -> String {
    use std::fmt::Write as _;
    let path = fs::canonicalize(machine.home()).unwrap();
    let digest = Sha256::digest(path.as_os_str().as_bytes());
    let mut id = digest.iter().fold(String::new(), |mut id, byte| {
        write!(id, "{byte:02x}").unwrap();
        id
    });
    id.truncate(16);
    id
}
