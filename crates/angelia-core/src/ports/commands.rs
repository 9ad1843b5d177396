//! Runs programs named by the owner: the commands of rules, each killed after a timeout, and long-running
//! programs that exchange lines with us.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::BoxFuture;

pub trait CommandRunner: Send + Sync + 'static {
    /// Runs a program until it exits or times out, then kills it and everything it started.
    fn run(&self, command: CommandSpec) -> BoxFuture<'_, Result<CommandOutput, CommandStartError>>;

    /// Returns whether there is a program at `path`.
    fn is_program(&self, path: &str) -> bool;

    /// Starts a program that runs until it exits on its own or its [`RunningProgram::input`] is dropped.
    fn start(
        &self,
        _program: ProgramSpec,
    ) -> BoxFuture<'_, Result<RunningProgram, CommandStartError>> {
        let message = "this process starts no programs".to_owned();
        Box::pin(async { Err(CommandStartError::NotStarted(message)) })
    }
}

/// A long-running program.
#[derive(Clone)]
pub struct ProgramSpec {
    /// The program's name in the log, to which its standard error is written.
    pub name: Arc<str>,
    /// A name in `PATH`, or a path (`~` is the owner's home).
    pub program: Arc<str>,
    pub args: Vec<Arc<str>>,
    /// The program's environment, besides the few variables that every program needs. Nothing else is
    /// inherited.
    pub env: Vec<(Arc<str>, Arc<str>)>,
    /// Maximum length of an output line in bytes. A longer line is skipped and reported.
    pub max_line: usize,
}

/// Omits the arguments and the values of variables, which may be secrets.
impl fmt::Debug for ProgramSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The lines to and from a running program.
#[derive(Debug)]
pub struct RunningProgram {
    /// Lines for the program's standard input, including line ends. Dropping this stops the program.
    pub input: mpsc::Sender<Vec<u8>>,
    /// The program's standard output. It ends when the program and everything it started are gone.
    pub output: mpsc::Receiver<ProgramOutput>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramOutput {
    /// A line without its line end.
    Line(Vec<u8>),
    /// A line that was too long, with its length.
    TooLong(usize),
    /// The program exited on its own, with a description for people.
    Ended(String),
}

#[derive(Clone, Debug)]
pub struct CommandSpec {
    pub program: CommandProgram,
    /// Added to the environment of this process.
    pub env: Vec<(&'static str, Arc<str>)>,
    /// Standard input; `None` if it is closed.
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
    /// The program exited on its own with status 0.
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
