//! Starts and stops a standalone bus. Never displaces another bus or orphans a process, and prints
//! only what it has verified.

use std::{fs, io, path::Path, time::Duration};

use angelia_frontends::bus::listener;
use tokio::time::{Instant, sleep};

use crate::{
    assemble::App,
    background,
    bus::{
        pid_file,
        process::{self, BusProcess},
        sockets::BusSockets,
    },
    cli::{
        error::{CommandError, Exit},
        print,
    },
};

/// A log larger than this is rotated at startup.
const MAX_LOG_BYTES: u64 = 512 * 1024;

/// How long a bus may take to answer, after its start or while it passes from one process to
/// another.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(18);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts the bus, unless it is already running. While `angelia serve` holds this home, the bus
/// belongs to that daemon: this command waits for it, and starts a bus only if the daemon ends.
pub(super) async fn start(app: &App, config: Option<&Path>) -> Result<Exit, CommandError> {
    let sockets = BusSockets::of_app(app);
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    loop {
        let found = process::find(app).await;
        let serving = pid_file::holder(&app.home.pid_file());
        if let BusProcess::Ours { pid, inside_serve } = found
            && listener::is_listening(&sockets.own).await
        {
            let place = if inside_serve { "inside `angelia serve`, " } else { "" };
            return print::line(&format!("the bus is already running ({place}process {pid})"));
        }
        let failure = match (found, serving) {
            (BusProcess::Ours { pid, .. }, _) => {
                let what = format!("the bus (process {pid}) is running but does not answer");
                CommandError::new(Exit::TryLater, what).with_hint("`angelia bus status` shows more")
            }
            (_, Some(pid)) => {
                let what = format!("`angelia serve` (process {pid}) has not opened the bus");
                CommandError::new(Exit::TryLater, what).with_hint("its log says why")
            }
            (_, None) => match start_process(app, config, &sockets).await? {
                StartResult::Running(exit) => return Ok(exit),
                // Another process opened the bus at the same moment.
                StartResult::Failed(error)
                    if error.exit == Exit::TryLater && found == BusProcess::Absent =>
                {
                    error
                }
                StartResult::Failed(error) => return Err(error),
            },
        };
        if Instant::now() > deadline {
            return Err(failure);
        }
        sleep(POLL_INTERVAL).await;
    }
}

enum StartResult {
    Running(Exit),
    Failed(CommandError),
}

/// Starts the bus in the background and waits until it is ready.
async fn start_process(
    app: &App,
    config: Option<&Path>,
    sockets: &BusSockets,
) -> Result<StartResult, CommandError> {
    app.home.prepare()?;
    let log = app.home.bus_log();
    rotate_log(&log).map_err(|error| {
        CommandError::internal(format!("cannot write {}: {error}", log.display()))
    })?;
    let args = vec!["bus".into(), "run".into(), "--detached".into()];
    let failed = match background::start(app, args, config, &log).await? {
        Ok(()) => {
            let pid = pid_file::holder(&app.home.bus_pid_file());
            let exit = print::line(&format!(
                "the bus is running (process {}), on {}",
                pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()),
                sockets.own.display()
            ))?;
            return Ok(StartResult::Running(exit));
        }
        Err(failed) => failed,
    };
    let exit = failed.exit.unwrap_or(Exit::Failed);
    let message = format!("the bus did not start: {}", failed.words);
    Ok(StartResult::Failed(CommandError::new(exit, message)))
}

fn rotate_log(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    Ok(())
}

pub(super) async fn stop(app: &App) -> Result<Exit, CommandError> {
    match process::find(app).await {
        BusProcess::Absent => print::line("the bus is not running"),
        BusProcess::Foreign => {
            let what = "the bus at Hermes' socket belongs to a daemon that is not ours";
            Err(CommandError::new(Exit::Failed, what).with_hint("stop it with its own command"))
        }
        BusProcess::Ours { pid, inside_serve: true } => {
            let what = format!("the bus runs inside `angelia serve` (process {pid})");
            Err(CommandError::new(Exit::Failed, what).with_hint("stop that to stop the bus"))
        }
        BusProcess::Ours { pid, .. } => {
            if let Some(bus) = process::prove(app, pid).await? {
                process::end(app, bus).await?;
                process::remove_stale_files(app).await;
            }
            print::line(&format!("the bus has stopped (process {pid})"))
        }
    }
}
