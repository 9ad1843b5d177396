//! Runs programs that the owner names in rules. Each has a timeout, after which it is killed.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::BoxFuture;

pub trait CommandRunner: Send + Sync + 'static {
    /// Runs a program until it exits or times out, then kills it and everything it started.
    fn run(&self, command: CommandSpec) -> BoxFuture<'_, Result<CommandOutput, CommandStartError>>;

    /// Whether there is a program at `path`.
    fn is_program(&self, path: &str) -> bool;
}

#[derive(Clone, Debug)]
pub struct CommandSpec {
    pub program: CommandProgram,
    /// Added to the environment of this process.
    pub env: Vec<(&'static str, Arc<str>)>,
    /// Standard input; `None`: closed.
    pub input: Option<Arc<[u8]>>,
    pub timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandProgram {
    /// A line for `sh -c`.
    Shell(Arc<str>),
    /// A program file (`~` is the owner's home) and its arguments.
    File(Arc<str>, Vec<Arc<str>>),
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// It exited by itself with status 0.
    pub ok: bool,
    pub timed_out: bool,
    pub stdout: Vec<u8>,
    /// The last part of standard error.
    pub stderr: String,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CommandStartError {
    #[error("there is no program {}", .0.display())]
    NotFound(PathBuf),
    #[error("{0}")]
    NotStarted(String),
}
