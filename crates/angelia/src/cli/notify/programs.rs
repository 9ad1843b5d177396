//! Runs the programs that a sender needs: tmux, and the bus if it is not running.

use std::sync::Arc;

use angelia_core::{redact::Redactor, task::TaskGroup};
use angelia_executors::{
    DelegationSlot, ExecutorHost,
    process::{HomeId, OwnerId, ShellCommands},
};
use uuid::Uuid;

use crate::{cli::error::CommandError, clock::SystemClock, config::Environment};

/// Returns a command runner that belongs to no Angelia home, because a sender needs no home and
/// leaves nothing in one.
pub(crate) fn sender_commands(environment: &Environment) -> Result<ShellCommands, CommandError> {
    let home = environment.home().unwrap_or_else(|| "/".into());
    let id = format!("notify-{}", Uuid::new_v4().simple());
    Ok(ShellCommands::new(ExecutorHost {
        environment: Arc::new(environment.variables().clone()),
        user_home: home.clone(),
        home_id: HomeId::new(&id).map_err(CommandError::internal)?,
        owner_id: OwnerId::new(&id).map_err(CommandError::internal)?,
        work_dir: home.clone(),
        ledger: home,
        redactor: Redactor::new(Vec::<String>::new()),
        tasks: TaskGroup::new(),
        clock: Arc::new(SystemClock),
        current_exe: std::env::current_exe().map_err(CommandError::internal)?,
        prices: Arc::default(),
        providers: Arc::default(),
        delegation: DelegationSlot::default(),
        keep_warm: false,
        wire_log: None,
    }))
}
