//! Starts the owner's programs like the binary does, in an isolated home.

use std::{fmt, sync::Arc};

use angelia_core::{
    ports::{
        BoxFuture, CommandOutput, CommandRunner, CommandSpec, CommandStartError, ProgramSpec,
        RunningProgram,
    },
    redact::Redactor,
    task::TaskGroup,
};
use angelia_executors::{
    DelegationSlot, ExecutorHost,
    process::{HomeId, OwnerId, ShellCommands},
};
use uuid::Uuid;

use crate::{clock::SystemClock, isolated_home::IsolatedHome};

/// Runs programs whose home is removed on drop.
pub struct OwnerPrograms {
    commands: ShellCommands,
    _home: IsolatedHome,
}

impl OwnerPrograms {
    pub fn new() -> anyhow::Result<Self> {
        let home = IsolatedHome::new()?;
        let mut environment: std::collections::BTreeMap<_, _> =
            home.environment().into_iter().collect();
        environment.insert("SECRET_OF_OURS".into(), "must-not-leak".into());
        let host = ExecutorHost {
            environment: Arc::new(environment),
            user_home: home.home(),
            home_id: HomeId::new("test-home")?,
            owner_id: OwnerId::new(&Uuid::now_v7().simple().to_string())?,
            work_dir: home.root().join("angelia/work"),
            ledger: home.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: TaskGroup::new(),
            clock: Arc::new(SystemClock),
            current_exe: std::env::current_exe()?,
            prices: Arc::default(),
            providers: Arc::default(),
            delegation: DelegationSlot::default(),
            keep_warm: false,
            wire_log: None,
        };
        Ok(Self { commands: ShellCommands::new(host), _home: home })
    }
}

impl CommandRunner for OwnerPrograms {
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

impl fmt::Debug for OwnerPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerPrograms")
    }
}
