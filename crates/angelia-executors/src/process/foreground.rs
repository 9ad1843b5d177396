//! Starts one of the owner's programs that takes over the terminal for a while, such as a pager or
//! an editor.

use std::{
    ffi::OsStr,
    io,
    process::{Child, Command, ExitStatus, Stdio},
};

/// Starts the program with a pipe as its stdin. It shares our environment and our terminal. It is
/// not an agent: the caller waits for it to end.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn start_foreground(program: &OsStr, arguments: &[&str]) -> io::Result<Child> {
    Command::new(program).args(arguments).stdin(Stdio::piped()).spawn()
}

/// Runs a program that reads from the terminal, and waits for it to end.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn run_interactive(program: &OsStr, arguments: &[&OsStr]) -> io::Result<ExitStatus> {
    Command::new(program).args(arguments).status()
}
