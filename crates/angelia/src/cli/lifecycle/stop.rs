//! `angelia stop`: ends the daemon of this home, and waits until it is gone.

use std::time::Duration;

use clap::Args;
use rustix::process::Signal;

use crate::{
    assemble::App,
    background::{EndFailure, ProvenProcess},
    bus::pid_file,
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::{Environment, Home},
};

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Do not wait for running turns.
    #[arg(long)]
    pub(super) now: bool,
}

/// How long the daemon may take to end its turns and agents, after `drain`.
const END_TIMEOUT: Duration = Duration::from_mins(1);
/// Stands in for `drain` if the configuration cannot be read now, although the daemon has read it
/// before.
const UNKNOWN_DRAIN: Duration = Duration::from_mins(1);
/// How long a killed process may take to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Stops the daemon, even if the configuration file is broken now.
pub(crate) async fn run(
    environment: Environment,
    config: Option<&std::path::Path>,
    args: &StopArgs,
) -> Result<Exit, CommandError> {
    let home = Home::from_environment(&environment)?;
    let drain = App::load(environment, config, &[]).map_or(UNKNOWN_DRAIN, |app| app.config.drain());
    let Some(pid) = pid_file::holder(&home.pid_file()) else {
        return print::line("angelia is not running");
    };
    end(&home, pid, drain, args.now).await?;
    print::line(&format!("angelia has stopped (process {pid})"))
}

/// Ends the daemon with SIGTERM. With `now`, a second signal makes it stop waiting for running
/// turns.
pub(super) async fn end(
    home: &Home,
    pid: u32,
    drain: Duration,
    now: bool,
) -> Result<(), CommandError> {
    let path = home.pid_file();
    let end = (Signal::TERM, if now { Duration::from_millis(200) } else { drain + END_TIMEOUT });
    let hurry = (Signal::INT, END_TIMEOUT);
    let kill = (Signal::KILL, KILL_TIMEOUT);
    let signals = if now { vec![end, hurry, kill] } else { vec![end, kill] };
    let is_running = || pid_file::holder(&path) == Some(pid);
    let is_proven = || std::future::ready(pid_file::is_held_by(&path, pid));
    let ended = match ProvenProcess::prove(pid, is_running, is_proven).await {
        Ok(Some(daemon)) => daemon.end(&signals, is_running).await,
        Ok(None) if is_running() => Err(EndFailure::StillRunning),
        Ok(None) => Ok(()),
        Err(failure) => Err(failure),
    };
    ended.map_err(|failure| {
        let (message, hint) = match failure {
            EndFailure::NotProven => (
                format!("process {pid} is not proven to be the daemon; it gets no signal"),
                "stop it yourself, where it was started",
            ),
            EndFailure::StillRunning => {
                (format!("the daemon (process {pid}) did not stop"), "see `angelia logs`")
            }
        };
        CommandError::new(Exit::Failed, message).with_hint(hint)
    })
}
