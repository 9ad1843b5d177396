//! Finds the agents' processes of a machine by their mark, as the product does.

use std::{fs, os::unix::ffi::OsStrExt as _};

use angelia_testkit::process_table;
use sha2::{Digest as _, Sha256};

use crate::machine::Machine;

/// Returns the pids of all living processes that carry this home's mark.
pub(crate) fn agent_pids(machine: &Machine) -> Vec<u32> {
    let marked = process_table::find_marked(&format!("{}:", home_id(machine)));
    marked.into_iter().map(i32::cast_unsigned).collect()
}

pub(crate) fn command_line(pid: u32) -> String {
    process_table::command_line(pid.cast_signed())
}

/// Returns the home's id in the mark: the hash of its path.
pub(crate) fn home_id(machine: &Machine) -> String {
    let path = fs::canonicalize(machine.home()).unwrap();
    let digest = Sha256::digest(path.as_os_str().as_bytes());
    hex::encode(&digest[..8])
}
