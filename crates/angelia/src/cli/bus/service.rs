//! Starts and stops a bus that runs on its own. No other bus is displaced, no process is orphaned,
//! and the command prints only what it has verified.

use std::{ffi::OsString, fs, io, path::Path, time::Duration};

use angelia_executors::process::{
    ProcessHandle,
    detached::{self, DaemonStart},
};
use angelia_frontends::bus::listener;
use rustix::process::{Pid, Signal};
use tokio::time::{Instant, sleep};

use super::status::{BusProcess, find_process, is_proven_holder, is_served_by};
use crate::{
    assemble::App,
    bus::{open, pid_file, standalone::READY_LINE},
    cli::{
        error::{CommandError, Exit},
        print,
    },
};

/// A log larger than this is rotated at a start.
const MAX_LOG_BYTES: u64 = 512 * 1024;

/// How long a bus may take to stop, or to answer after its start.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a bus that was started at the same moment may take to write its pid file.
const PID_FILE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn start(app: &App, config: Option<&Path>) -> Result<Exit, CommandError> {
    if let BusProcess::Ours { pid, inside_serve } = find_process(app).await? {
        return report_running(app, pid, inside_serve).await;
    }
    app.home.prepare()?;
    let program = std::env::current_exe().map_err(CommandError::internal)?;
    let mut args: Vec<OsString> = vec!["bus".into(), "run".into(), "--detached".into()];
    if let Some(config) = config {
        let config = std::path::absolute(config).map_err(CommandError::internal)?;
        args.extend(["--config".into(), config.into()]);
    }
    let log_path = app.home.bus_log();
    let (log, begin) = open_log(&log_path).map_err(|error| {
        CommandError::internal(format!("cannot write {}: {error}", log_path.display()))
    })?;
    let environment = app.environment.clone();
    let started = tokio::task::spawn_blocking(move || {
        detached::start_daemon(&program, &args, environment.iter(), log)
    });
    let started = started.await.map_err(CommandError::internal)?;
    match started.map_err(CommandError::internal)? {
        DaemonStart::Ready(word) if word == READY_LINE => {
            let pid = pid_file::holder(&app.home.bus_pid_file());
            let socket = open::socket_path(app)?;
            print::line(&format!(
                "the bus is running (process {}), on {}",
                pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()),
                socket.display()
            ))
        }
        DaemonStart::Ready(word) => Err(CommandError::internal(format!(
            "the bus reported `{word}` instead of its readiness"
        ))),
        DaemonStart::Exited(status) => {
            let known = [Exit::TryLater, Exit::Config, Exit::Unavailable];
            let exit = known.into_iter().find(|exit| status.code() == Some(*exit as i32));
            // Another process started a bus at the same moment, but has not written its pid file
            // yet.
            let deadline = Instant::now() + PID_FILE_TIMEOUT;
            while exit == Some(Exit::TryLater) && Instant::now() < deadline {
                if let BusProcess::Ours { pid, inside_serve } = find_process(app).await? {
                    return report_running(app, pid, inside_serve).await;
                }
                sleep(POLL_INTERVAL).await;
            }
            let words = read_log_from(&log_path, begin);
            let exit = exit.unwrap_or(Exit::Failed);
            Err(CommandError::new(exit, format!("the bus did not start: {words}")))
        }
    }
}

/// Waits until the bus that is already running answers, then reports it.
async fn report_running(app: &App, pid: u32, inside_serve: bool) -> Result<Exit, CommandError> {
    let socket = open::socket_path(app)?;
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    while !listener::is_listening(&socket).await {
        if Instant::now() > deadline {
            let what = format!("the bus (process {pid}) is running but does not answer");
            return Err(CommandError::new(Exit::TryLater, what)
                .with_hint("`angelia bus status` shows more"));
        }
        sleep(POLL_INTERVAL).await;
    }
    let place = if inside_serve { "inside `angelia serve`, " } else { "" };
    print::line(&format!("the bus is already running ({place}process {pid})"))
}

fn open_log(path: &Path) -> io::Result<(fs::File, u64)> {
    if fs::metadata(path).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    let log = fs::OpenOptions::new().create(true).append(true).open(path)?;
    let begin = log.metadata()?.len();
    Ok((log, begin))
}

fn read_log_from(path: &Path, begin: u64) -> String {
    let log = fs::read(path).unwrap_or_default();
    let begin = usize::try_from(begin).unwrap_or(0).min(log.len());
    let words = String::from_utf8_lossy(&log[begin..]);
    let words = words.trim();
    if words.is_empty() {
        format!("it said nothing; see {}", path.display())
    } else {
        words.to_owned()
    }
}

pub(super) async fn stop(app: &App) -> Result<Exit, CommandError> {
    match find_process(app).await? {
        BusProcess::Absent => print::line("the bus is not running"),
        BusProcess::Foreign => {
            let socket = open::socket_path(app)?;
            let what = format!("{} belongs to a daemon that is not ours", socket.display());
            Err(CommandError::new(Exit::Failed, what).with_hint("stop it with its own command"))
        }
        BusProcess::Ours { pid, inside_serve: true } => {
            let what = format!("the bus runs inside `angelia serve` (process {pid})");
            Err(CommandError::new(Exit::Failed, what).with_hint("stop that to stop the bus"))
        }
        BusProcess::Ours { pid, .. } => {
            stop_process(app, pid).await?;
            print::line(&format!("the bus has stopped (process {pid})"))
        }
    }
}

/// Stops the process with SIGTERM, then with SIGKILL. It has ended when the locks on its files are
/// released.
async fn stop_process(app: &App, pid: u32) -> Result<(), CommandError> {
    // Opened before the check: what is proven then is about the process that gets the signal, and
    // not about a later one with the same pid.
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).and_then(ProcessHandle::open);
    for signal in [Signal::TERM, Signal::KILL] {
        if !is_served_by(app, pid) {
            return Ok(());
        }
        let Some(process) = process.as_ref().filter(|process| process.is_current()) else {
            break;
        };
        if !is_proven_holder(app, pid).await {
            let what = format!("process {pid} is not proven to be the bus; it gets no signal");
            return Err(CommandError::new(Exit::Failed, what)
                .with_hint("`angelia bus status` shows what is known; stop it yourself"));
        }
        process.signal(signal);
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        while Instant::now() < deadline {
            if !is_served_by(app, pid) {
                remove_stale_files(app).await;
                return Ok(());
            }
            sleep(POLL_INTERVAL).await;
        }
    }
    let what = format!("the bus (process {pid}) did not stop");
    Err(CommandError::new(Exit::Failed, what))
}

/// Removes the files that a killed bus has left behind.
async fn remove_stale_files(app: &App) {
    if let Ok(socket) = open::socket_path(app)
        && !listener::is_listening(&socket).await
    {
        let _gone = fs::remove_file(&socket);
    }
    if pid_file::holder(&app.home.bus_pid_file()).is_none() {
        let _gone = fs::remove_file(app.home.bus_pid_file());
    }
}
