//! `angelia bus run`: the bus without agents, in the foreground. `bus start` runs this command in
//! the background.

use std::{sync::Arc, time::Duration};

use angelia_core::task::Tasks;
use angelia_executors::process::detached;

use crate::{
    assemble::{App, commands_only},
    bus::open,
    cli::error::{CommandError, Exit},
    daemon::{Signals, leave_the_agent},
    hosting,
};

const DRAIN: Duration = Duration::from_secs(5);

/// The line that `bus start` waits for.
pub(crate) const READY: &str = "ready";

pub(crate) async fn run(app: &Arc<App>, is_detached: bool) -> Result<Exit, CommandError> {
    if is_detached {
        detached::leave_the_terminal();
    } else {
        leave_the_agent(app)?;
    }
    let signals = Signals::listen().map_err(CommandError::internal)?;
    if !app.config.bus().hermes_socket {
        let what = "a bus that runs alone needs its socket, and bus.hermes_socket is off";
        let hint = "set bus.hermes_socket: true, or use the bus inside `angelia serve`";
        return Err(CommandError::new(Exit::Config, what).with_hint(hint));
    }
    let tasks = Tasks::new();
    let opened = open::open(app, &tasks, true).await?;
    let commands = commands_only(app, "bus")?;
    hosting::hooks(&app.environment, commands, &opened.door.heard, &tasks);
    let running = opened.serve();
    for warning in app.config.warnings() {
        tracing::warn!("{warning}");
    }
    if is_detached {
        detached::say_ready(READY).map_err(CommandError::internal)?;
    }
    signals.wait_for_the_end().await;
    tracing::info!("shutting down");
    if !tasks.shutdown(DRAIN).await {
        tracing::warn!("some clients did not disconnect in time");
    }
    running.close().await;
    Ok(Exit::Done)
}
