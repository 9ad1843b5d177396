//! Runs a system tool to completion, such as `systemctl`, or starts one, such as a browser. The
//! tool is not an agent: it gets the whole environment and no mark.

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt as _,
    process::{Output, Stdio},
};

use super::mark::MARK_VARIABLE;

/// Runs a tool, which is looked up on `PATH`, and returns its output. Blocks until it has ended.
#[expect(clippy::disallowed_methods, reason = "this is one of the places where processes are born")]
pub fn run_tool<'a>(
    program: &str,
    args: &[String],
    environment: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> io::Result<Output> {
    std::process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment)
        .env_remove(MARK_VARIABLE)
        .stdin(Stdio::null())
        .output()
}

/// Starts a tool, which is looked up on `PATH`, without a terminal, and does not wait for it.
#[expect(clippy::disallowed_methods, reason = "this is one of the places where processes are born")]
pub fn start_tool<'a>(
    program: &str,
    args: &[String],
    environment: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> io::Result<()> {
    let started = std::process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment)
        .env_remove(MARK_VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    started.map(drop)
}
