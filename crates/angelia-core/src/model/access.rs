//! The files, command, directory and variables that a tool call touches. Executors copy them from
//! the agent's request; the permission rules are applied to them and never to text for people.

use std::{path::PathBuf, sync::Arc};

/// The files and the command that a tool call touches, as the agent states them. Relative paths are
/// relative to `cwd`, and `cwd` itself to the session's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAccess {
    /// Files and folders that the call reads.
    pub reads: Vec<PathBuf>,
    /// Files and folders that the call creates, changes or deletes. All of them must be allowed.
    pub writes: Vec<PathBuf>,
    pub command: Option<CommandAccess>,
    /// `None`: the session's directory.
    pub cwd: Option<PathBuf>,
    /// The reason why the agent itself would not run this call without asking a person. `None`: the
    /// agent has no objection.
    pub vendor_objection: Option<Arc<str>>,
    /// The reason why a person must decide, regardless of the level and the patterns.
    pub must_ask: Option<Arc<str>>,
}

/// A command that a tool call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandAccess {
    pub line: CommandLine,
    /// The variables that the call sets or changes.
    pub env: Vec<(Arc<str>, Arc<str>)>,
}

impl CommandAccess {
    /// A script for a shell, without changed variables.
    pub fn shell(script: impl Into<Arc<str>>) -> Self {
        Self { line: CommandLine::Shell(script.into()), env: Vec::new() }
    }

    /// A program with its arguments, without changed variables.
    pub fn argv(argv: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { line: CommandLine::Argv(argv), env: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// A shell parses this text.
    Shell(Arc<str>),
    /// The program and its arguments; no shell takes part.
    Argv(Vec<Arc<str>>),
}

/// The point at which the agent tells the engine of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalStage {
    /// The agent waits for permission; the engine answers with `TurnControl::Decide`.
    #[default]
    Request,
    /// The agent reports a call before it applies its own rules, and would perhaps run it without
    /// asking. The engine answers with `TurnControl::Proceed` (the agent's own rules decide, and it
    /// may still send a request for the same call), or with `TurnControl::Decide` (a rule denied
    /// the call, or a person has decided it).
    Report,
}
