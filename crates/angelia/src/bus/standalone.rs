//! `angelia bus run`: the bus without agents, in the foreground. `bus start` runs this command in
//! the background.

use std::{sync::Arc, time::Duration};

use angelia_core::task::TaskGroup;
use angelia_executors::process::detached;

use crate::{
    assemble::App,
    background::READY_WORD,
    bus::open,
    cli::error::{CommandError, Exit},
    daemon::{ShutdownSignals, restart_outside_agent},
    hosting,
    standalone_commands::standalone_commands,
};

const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn run(app: &Arc<App>, is_detached: bool) -> Result<Exit, CommandError> {
    if is_detached {
        detached::detach_from_terminal();
    } else {
        restart_outside_agent(app)?;
    }
    let mut signals = ShutdownSignals::listen().map_err(CommandError::internal)?;
    let tasks = TaskGroup::new();
    let opened = open::open_alone(app, &tasks).await?;
    let commands = standalone_commands(app, "bus")?;
    hosting::spawn_hooks(&app.environment, commands, &opened.context.message_feed, &tasks);
    let running = opened.serve();
    for warning in app.config.warnings() {
        tracing::warn!("{warning}");
    }
    if is_detached {
        detached::report_ready(READY_WORD).map_err(CommandError::internal)?;
    }
    signals.wait().await;
    tracing::info!("shutting down");
    if !tasks.shutdown(DRAIN_TIMEOUT).await {
        tracing::warn!("some clients did not disconnect in time");
    }
    running.close().await;
    Ok(Exit::Done)
}
