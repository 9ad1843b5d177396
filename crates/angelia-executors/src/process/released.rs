//! A daemon that an agent started must not be taken for a part of that agent: it starts itself
//! again without the mark, in a session of its own, or it would be swept with the agent.

use std::{ffi::OsString, io, os::unix::process::CommandExt as _, path::Path};

use super::mark::{RELEASED, VARIABLE};

/// Replaces this process by the same program with the mark released. Returns only when it cannot.
#[expect(clippy::disallowed_methods, reason = "this replaces the process, it starts no child")]
pub fn start_again(program: &Path, args: impl IntoIterator<Item = OsString>) -> io::Error {
    // Fails for a group leader, who is outside the agent's group already.
    let _leader = rustix::process::setsid();
    std::process::Command::new(program).args(args).env(VARIABLE, RELEASED).exec()
}
