//! `angelia restart`: asks the daemon to replace itself, and waits until the new one answers.

use std::{path::Path, time::Duration};

use angelia_executors::process::ProcessHandle;
use angelia_frontends::http::{RestartProgress, resources::TurnResource};
use clap::Args;
use rustix::process::Pid;
use tokio::time::{Instant, sleep};

use super::{start, stop};
use crate::{
    assemble::App,
    bus::pid_file,
    cli::{
        error::{CommandError, Exit},
        print,
    },
    client::{ClientError, DaemonClient, RestartSteps},
    daemon_process::{self, DaemonProcess},
};

#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// End turns that wait for a person or a caller's tool, instead of waiting for them.
    #[arg(long)]
    now: bool,
}

/// How long the old daemon may take to end its turns and agents, and the new one to answer.
const RESTART_TIMEOUT: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of consecutive checks after which a process that looks ended is considered ended.
const MAX_ABSENCES: u32 = 10;

/// How the restart request ended.
enum RequestEnd {
    Committed,
    TakenBack,
    /// The daemon closed the connection before it committed to the restart.
    DaemonLost,
}

pub(crate) async fn run(
    app: &App,
    config: Option<&Path>,
    args: &RestartArgs,
) -> Result<Exit, CommandError> {
    let Some(pid) = pid_file::holder(&app.home.pid_file()) else {
        print::note("angelia was not running");
        return start::run(app, config).await;
    };
    let Some(daemon) = DaemonClient::connect(&app.home.socket()).await else {
        let message = format!("the daemon (process {pid}) does not answer");
        return Err(CommandError::new(Exit::TryLater, message)
            .with_hint("try again in a moment; `angelia stop` ends it in any case"));
    };
    let old_version = daemon.hello().await.ok().map(|hello| hello.version);
    let steps = match daemon.restart(args.now).await {
        Ok(steps) => steps,
        Err(ClientError::Refused(detail)) if &*detail.kind == "not_found" => {
            return replace_old_daemon(app, config, pid, args.now).await;
        }
        Err(error) => return Err(restart_error(&error)),
    };
    match follow(app, steps).await {
        RequestEnd::Committed => wait_for_new_daemon(app, pid, old_version).await,
        RequestEnd::TakenBack => {
            print::note(&format!("angelia: not restarted; the daemon (process {pid}) still runs"));
            Ok(Exit::Interrupted)
        }
        RequestEnd::DaemonLost => {
            print::note("angelia: the daemon ended before it could restart; starting another one");
            start::run(app, config).await
        }
    }
}

fn restart_error(error: &ClientError) -> CommandError {
    let exit = match error {
        ClientError::Refused(_) => Exit::TryLater,
        _ => Exit::Unavailable,
    };
    let hint = match error {
        ClientError::Refused(detail) => detail.hint.clone(),
        _ => None,
    };
    let failed = CommandError::new(exit, format!("cannot restart the daemon: {error}"));
    match hint {
        Some(hint) => failed.with_hint(hint),
        None => failed,
    }
}

/// Replaces a daemon whose version cannot restart itself.
async fn replace_old_daemon(
    app: &App,
    config: Option<&Path>,
    pid: u32,
    now: bool,
) -> Result<Exit, CommandError> {
    print::note("angelia: the running daemon is too old to hand its turns over; stopping it");
    stop::end(&app.home, pid, app.config.drain(), now).await?;
    start::run(app, config).await
}

/// Prints the turns that the daemon waits for, until it restarts or Ctrl-C cancels the restart.
async fn follow(app: &App, mut steps: RestartSteps) -> RequestEnd {
    loop {
        let step = tokio::select! {
            step = steps.next() => step,
            _ = tokio::signal::ctrl_c() => return RequestEnd::TakenBack,
        };
        match step {
            Some(RestartProgress::Waiting { running, waiting, queued }) => {
                let text = describe_wait(&running, &waiting, queued, app.config.drain());
                if !text.is_empty() {
                    print::note(&text);
                }
            }
            Some(RestartProgress::Committed) => return RequestEnd::Committed,
            None => return RequestEnd::DaemonLost,
        }
    }
}

fn describe_wait(
    running: &[TurnResource],
    waiting: &[TurnResource],
    queued: usize,
    drain: Duration,
) -> String {
    let mut lines = Vec::new();
    if !running.is_empty() {
        let seconds = drain.as_secs();
        lines.push(format!("waiting for {}, at most {seconds} s", turns(running.len(), "running")));
    }
    if !waiting.is_empty() {
        lines.push(format!("waiting for {}:", turns(waiting.len(), "open")));
        for turn in waiting {
            let what = match &*turn.status {
                "awaiting_approval" => "waits for a decision: `angelia approvals list`",
                _ => "waits for a tool of its caller",
            };
            lines.push(format!("  {}  {what}", turn.id));
        }
        lines.push("  Ctrl-C leaves the daemon as it is; `restart --now` ends these turns".into());
    }
    if queued > 0 && !lines.is_empty() {
        lines.push(format!("{} will continue in the new daemon", turns(queued, "queued")));
    }
    lines.join("\n")
}

fn turns(count: usize, which: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {which} turn{plural}")
}

/// Waits until the daemon answers again. A daemon that is still shutting down answers that it accepts no
/// work.
async fn wait_for_new_daemon(
    app: &App,
    pid: u32,
    old_version: Option<String>,
) -> Result<Exit, CommandError> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = raw.and_then(ProcessHandle::open);
    let deadline = Instant::now() + RESTART_TIMEOUT;
    let mut absences = 0;
    while Instant::now() < deadline {
        if let DaemonProcess::Serving { pid } = DaemonProcess::find(&app.home).await {
            return report(app, pid, old_version).await;
        }
        // The process stays the same; if it ends, the new program did not start. While it replaces its
        // program, the process looks ended for a moment: the kernel first ends its other threads, and the one
        // whose id is the pid may be among them.
        let is_there = process.as_ref().is_some_and(ProcessHandle::is_current);
        absences = if is_there { 0 } else { absences + 1 };
        if absences == MAX_ABSENCES {
            break;
        }
        sleep(POLL_INTERVAL).await;
    }
    // Another process, such as a supervisor, may have started a daemon.
    if let DaemonProcess::Serving { pid } = DaemonProcess::find(&app.home).await {
        return report(app, pid, old_version).await;
    }
    Err(CommandError::new(Exit::Failed, "the daemon stopped and did not start again")
        .with_hint("see `angelia logs`, then `angelia start`"))
}

async fn report(app: &App, pid: u32, old_version: Option<String>) -> Result<Exit, CommandError> {
    let daemon = DaemonClient::connect(&app.home.socket()).await;
    let new_version = match daemon {
        Some(daemon) => daemon.hello().await.ok().map(|hello| hello.version),
        None => None,
    };
    let address = daemon_process::address(&app.home).unwrap_or_default();
    let what = match (old_version, &new_version) {
        (Some(old), Some(new)) if old != *new => format!("angelia {new} has replaced {old}"),
        _ => "angelia has restarted".to_owned(),
    };
    let printed = print::line(&format!("{what} at {address} (process {pid})"));
    if let Some(version) = new_version.filter(|version| version != env!("CARGO_PKG_VERSION")) {
        print::note(&format!(
            "angelia: the daemon runs version {version}, and this is {}\n  hint: it runs the \
             program it was started with; `angelia stop` and `angelia start` use this one",
            env!("CARGO_PKG_VERSION")
        ));
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_wait_for_needs_no_words() {
        assert_eq!(describe_wait(&[], &[], 0, Duration::ZERO), "");
        assert_eq!(describe_wait(&[], &[], 3, Duration::ZERO), "");
        assert_eq!(turns(1, "running"), "1 running turn");
        assert_eq!(turns(2, "queued"), "2 queued turns");
    }
}
