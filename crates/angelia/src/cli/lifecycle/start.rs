//! `angelia start`: runs the daemon in the background and waits until it is ready.

use std::{path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    assemble::App,
    background,
    cli::{
        error::{CommandError, Exit},
        print,
    },
    daemon_process::{self, DaemonProcess},
};

/// How long a daemon that was started at the same moment may take to answer.
const RIVAL_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn run(app: &App, config: Option<&Path>) -> Result<Exit, CommandError> {
    match ensure_running(app, config).await? {
        RunningDaemon::Earlier { pid } => report(app, pid, "is already running"),
        RunningDaemon::Started { pid } => {
            report(app, pid, "is running")?;
            print::note(&format!("log: {} (`angelia logs -f`)", app.home.daemon_log().display()));
            Ok(Exit::Done)
        }
    }
}

/// A daemon that accepts work, and whether this process started it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunningDaemon {
    Earlier { pid: u32 },
    Started { pid: u32 },
}

/// Starts the daemon if none runs, and waits until it is ready.
pub(crate) async fn ensure_running(
    app: &App,
    config: Option<&Path>,
) -> Result<RunningDaemon, CommandError> {
    if let DaemonProcess::Serving { pid } = DaemonProcess::find(&app.home).await {
        return Ok(RunningDaemon::Earlier { pid });
    }
    app.home.prepare()?;
    let log = app.home.daemon_log();
    let args = vec!["serve".into(), "--detached".into()];
    let failed = match background::start(app, args, config, &log).await? {
        Ok(()) => return find_started(app).await,
        Err(failed) => failed,
    };
    // Another process started a daemon at the same moment.
    let deadline = Instant::now() + RIVAL_TIMEOUT;
    while failed.exit == Some(Exit::TryLater) && Instant::now() < deadline {
        match DaemonProcess::find(&app.home).await {
            DaemonProcess::Serving { pid } => return Ok(RunningDaemon::Earlier { pid }),
            DaemonProcess::Changing { .. } => sleep(POLL_INTERVAL).await,
            DaemonProcess::Absent => break,
        }
    }
    let message = format!("the daemon did not start: {}", failed.words);
    Err(CommandError::new(failed.exit.unwrap_or(Exit::Failed), message))
}

async fn find_started(app: &App) -> Result<RunningDaemon, CommandError> {
    match DaemonProcess::find(&app.home).await {
        DaemonProcess::Serving { pid } => Ok(RunningDaemon::Started { pid }),
        DaemonProcess::Changing { .. } | DaemonProcess::Absent => {
            let message = "the daemon started and ended at once";
            Err(CommandError::new(Exit::Failed, message).with_hint("see `angelia logs`"))
        }
    }
}

fn report(app: &App, pid: u32, state: &str) -> Result<Exit, CommandError> {
    let address = daemon_process::address(&app.home).unwrap_or_default();
    print::line(&format!("angelia {state} at {address} (process {pid})"))
}
