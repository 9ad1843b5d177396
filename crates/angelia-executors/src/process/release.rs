//! Replaces the program of a daemon's process. A daemon that an agent has started re-executes
//! itself in a session of its own and without the agent's mark; otherwise it would be swept with
//! the agent. A daemon that restarts passes its listener on.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::OwnedFd,
    os::unix::process::CommandExt as _,
    path::Path,
    process::Stdio,
};

use super::mark::{MARK_VARIABLE, RELEASED_MARK};

/// Replaces this process with the given program in the given environment, with its mark released.
/// Returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this replaces the process, it starts no child")]
pub fn reexec_released<'a>(
    program: &Path,
    args: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> io::Error {
    // Fails for a group leader, which is already outside the agent's group.
    let _leader = rustix::process::setsid();
    std::process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment)
        .env(MARK_VARIABLE, RELEASED_MARK)
        .exec()
}

/// Replaces this process with a program that gets `listener` as its stdin. Returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this replaces the process, it starts no child")]
pub fn exec_with_listener<'a>(
    program: &Path,
    args: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    listener: OwnedFd,
) -> io::Error {
    std::process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::from(listener))
        .exec()
}
