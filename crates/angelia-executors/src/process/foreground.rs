//! Starts a program of the owner that takes over the terminal for a while: a pager, or an editor.

use std::{
    ffi::OsStr,
    io,
    process::{Child, Command, ExitStatus, Stdio},
};

/// Starts the program with a pipe as its stdin. It has our environment and our terminal, and is no
/// agent: its caller waits for its end.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn start_foreground(program: &OsStr, arguments: &[&str]) -> io::Result<Child> {
    Command::new(program).args(arguments).stdin(Stdio::piped()).spawn()
}

/// Runs a program that reads what the person types, to its end.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn run_interactive(program: &OsStr, arguments: &[&OsStr]) -> io::Result<ExitStatus> {
    Command::new(program).args(arguments).status()
}
