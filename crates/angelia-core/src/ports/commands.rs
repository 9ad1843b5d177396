//! Programs of the owner's that rules name: short ones, with a limit, that never outlive it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::BoxFuture;

pub trait Commands: Send + Sync + 'static {
    /// Runs a program to its end, or to its limit; then it and everything it started is ended.
    fn run(&self, command: CommandLine) -> BoxFuture<'_, Result<Ran, CommandFailed>>;

    /// Whether there is a program at a path.
    fn is_program(&self, path: &str) -> bool;
}

#[derive(Clone, Debug)]
pub struct CommandLine {
    pub program: Program,
    /// Over the environment of this process.
    pub env: Vec<(&'static str, Arc<str>)>,
    /// What it can read; nothing: its input is closed.
    pub input: Option<Arc<[u8]>>,
    pub limit: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A line for `sh -c`.
    Shell(Arc<str>),
    /// A file, where `~` is the owner's home, and its arguments.
    File(Arc<str>, Vec<Arc<str>>),
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// It ended by itself, with exit status 0.
    pub ok: bool,
    pub timed_out: bool,
    pub stdout: Vec<u8>,
    /// Its last words.
    pub stderr: String,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CommandFailed {
    #[error("there is no program {}", .0.display())]
    NotFound(PathBuf),
    #[error("{0}")]
    NotStarted(String),
}
