//! Releasing a daemon from the agent that started it. The daemon re-executes itself without the
//! agent's mark, in a session of its own; otherwise it would be swept with the agent.

use std::{ffi::OsString, io, os::unix::process::CommandExt as _, path::Path};

use super::mark::{MARK_VARIABLE, RELEASED_MARK};

/// Replaces this process with the same program, with the mark released. Returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this replaces the process, it starts no child")]
pub fn reexec_released(program: &Path, args: impl IntoIterator<Item = OsString>) -> io::Error {
    // Fails for a group leader, which is already outside the agent's group.
    let _leader = rustix::process::setsid();
    std::process::Command::new(program).args(args).env(MARK_VARIABLE, RELEASED_MARK).exec()
}
