//! Starts a program of the owner that takes over the terminal for a while, such as a pager.

use std::{
    ffi::OsStr,
    io,
    process::{Child, Command, Stdio},
};

/// Starts the program with a pipe as its stdin. It has our environment and our terminal, and is no
/// agent: its caller waits for its end.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn start_foreground(program: &OsStr, arguments: &[&str]) -> io::Result<Child> {
    Command::new(program).args(arguments).stdin(Stdio::piped()).spawn()
}
