//! Runs programs that the owner names: commands of rules, each with a timeout after which it is killed, and
//! programs that run beside us and speak by lines.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::BoxFuture;

pub trait CommandRunner: Send + Sync + 'static {
    /// Runs a program until it exits or times out, then kills it and everything it started.
    fn run(&self, command: CommandSpec) -> BoxFuture<'_, Result<CommandOutput, CommandStartError>>;

    /// Whether there is a program at `path`.
    fn is_program(&self, path: &str) -> bool;

    /// Starts a program that runs until it ends by itself, or until its [`RunningProgram::input`] is dropped.
    fn start(
        &self,
        _program: ProgramSpec,
    ) -> BoxFuture<'_, Result<RunningProgram, CommandStartError>> {
        let message = "this process starts no programs".to_owned();
        Box::pin(async { Err(CommandStartError::NotStarted(message)) })
    }
}

/// A program that runs beside us.
#[derive(Clone)]
pub struct ProgramSpec {
    /// Its name in the log, which gets the lines of its standard error.
    pub name: Arc<str>,
    /// A name in `PATH`, or a path (`~` is the owner's home).
    pub program: Arc<str>,
    pub args: Vec<Arc<str>>,
    /// Its variables besides the few that every program needs; nothing else of our environment.
    pub env: Vec<(Arc<str>, Arc<str>)>,
    /// The longest line of its output, in bytes. A longer one is skipped and reported.
    pub max_line: usize,
}

/// Leaves the values of variables out, and the arguments, which may be secrets.
impl fmt::Debug for ProgramSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The lines to and from a running program.
#[derive(Debug)]
pub struct RunningProgram {
    /// Lines for its standard input, with their end. The program is stopped when this is dropped.
    pub input: mpsc::Sender<Vec<u8>>,
    /// Its standard output. It ends when the program and everything that it started are gone.
    pub output: mpsc::Receiver<ProgramOutput>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramOutput {
    /// A line without its end.
    Line(Vec<u8>),
    /// A line that was too long, and its length.
    TooLong(usize),
    /// The program has ended by itself; how, for people.
    Ended(String),
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
