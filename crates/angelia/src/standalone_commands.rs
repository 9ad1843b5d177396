//! Runs the owner's programs in a process without an engine.

use std::sync::Arc;

use angelia_core::ports::{
    BoxFuture, CommandOutput, CommandRunner, CommandSpec, CommandStartError, ProgramSpec,
    RunningProgram,
};
use angelia_executors::process::ShellCommands;

use crate::{
    assemble::{App, StandaloneHost},
    cli::error::CommandError,
};

/// Runs the programs named by hooks and rules in a process without an engine. The programs end with
/// this process.
pub(crate) fn standalone_commands(
    app: &App,
    command: &'static str,
) -> Result<Arc<dyn CommandRunner>, CommandError> {
    let owned = StandaloneHost::start(app, command)?;
    Ok(Arc::new(OwnedCommands {
        commands: ShellCommands::new(owned.host().clone()),
        _owned: owned,
    }))
}

/// Commands with the lock of their owner. Without the lock, another angelia would kill their
/// processes as leftovers of a dead one.
struct OwnedCommands {
    commands: ShellCommands,
    _owned: StandaloneHost,
}

impl CommandRunner for OwnedCommands {
    fn run(&self, command: CommandSpec) -> BoxFuture<'_, Result<CommandOutput, CommandStartError>> {
        self.commands.run(command)
    }

    fn is_program(&self, path: &str) -> bool {
        self.commands.is_program(path)
    }

    fn start(
        &self,
        program: ProgramSpec,
    ) -> BoxFuture<'_, Result<RunningProgram, CommandStartError>> {
        self.commands.start(program)
    }
}
