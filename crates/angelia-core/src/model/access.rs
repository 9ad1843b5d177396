//! The files, command, directory and variables that a tool call touches. Executors copy them from
//! the agent's request. The permission rules apply to these, never to text meant for people.

use std::{path::PathBuf, sync::Arc};

/// The files and the command that a tool call touches, as stated by the agent. Relative paths are
/// relative to `cwd`, and `cwd` to the session's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAccess {
    /// Files and folders that the call reads.
    pub reads: Vec<PathBuf>,
    /// Files and folders that the call creates, changes or deletes. All of them must be allowed.
    pub writes: Vec<PathBuf>,
    pub command: Option<CommandAccess>,
    /// `None` for the session's directory.
    pub cwd: Option<PathBuf>,
    /// Why the agent itself would not run this call without asking a person. `None` if it has no
    /// objection.
    pub vendor_objection: Option<Arc<str>>,
    /// Why a person must decide, regardless of the level and the patterns.
    pub must_ask: Option<Arc<str>>,
}

/// A command that a tool call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandAccess {
    pub line: CommandLine,
    /// The environment variables that the call sets or changes.
    pub env: Vec<(Arc<str>, Arc<str>)>,
}

impl CommandAccess {
    /// Returns a script for a shell, with no changed variables.
    pub fn shell(script: impl Into<Arc<str>>) -> Self {
        Self { line: CommandLine::Shell(script.into()), env: Vec::new() }
    }

    /// Returns a program with its arguments, with no changed variables.
    pub fn argv(argv: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { line: CommandLine::Argv(argv), env: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// Text for a shell to parse.
    Shell(Arc<str>),
    /// A program and its arguments, run without a shell.
    Argv(Vec<Arc<str>>),
}

/// When the agent tells the engine about a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalStage {
    /// The agent waits for permission, and the engine answers with `TurnControl::Decide`.
    #[default]
    Request,
    /// The agent reports a call before it applies its own rules, which might run it without asking.
    /// The engine answers with `TurnControl::Proceed` (the agent's own rules decide, and it may
    /// still send a request for the same call) or with `TurnControl::Decide` (a rule denied the
    /// call, or a person has decided it).
    Report,
}
