//! Starts and ends a background daemon of this home. Used for the daemon itself and for a
//! standalone bus.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    process::ExitStatus,
    time::Duration,
};

use angelia_executors::process::{
    ProcessHandle,
    detached::{self, DaemonStart},
};
use rustix::process::{Pid, Signal};
use tokio::time::{Instant, sleep};

use crate::{
    assemble::App,
    cli::error::{CommandError, Exit},
};

/// The word that a daemon prints when it is ready.
pub(crate) const READY_WORD: &str = "ready";

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A daemon that did not become ready.
#[derive(Debug)]
pub(crate) struct FailedStart {
    /// `None` for an exit code that a daemon itself never returns.
    pub(crate) exit: Option<Exit>,
    /// The text that it wrote to its log.
    pub(crate) words: String,
}

/// Starts this program with these arguments in the background, and waits until it is ready. Its
/// stderr is appended to the log.
pub(crate) async fn start(
    app: &App,
    mut args: Vec<OsString>,
    config: Option<&Path>,
    log_path: &Path,
) -> Result<Result<(), FailedStart>, CommandError> {
    let program = crate::program::invoked_program(&app.environment)?;
    if let Some(config) = config {
        let config = std::path::absolute(config).map_err(CommandError::internal)?;
        args.extend(["--config".into(), config.into()]);
    }
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(log_path);
    let log = log.and_then(|log| Ok((log.metadata()?.len(), log)));
    let (begin, log) = log.map_err(|error| {
        CommandError::internal(format!("cannot write {}: {error}", log_path.display()))
    })?;
    let environment = app.environment.clone();
    let started = tokio::task::spawn_blocking(move || {
        detached::start_daemon(&program, &args, environment.iter(), log)
    });
    let started = started.await.map_err(CommandError::internal)?;
    match started.map_err(CommandError::internal)? {
        DaemonStart::Ready(word) if word == READY_WORD => Ok(Ok(())),
        DaemonStart::Ready(word) => {
            let what = format!("the daemon reported `{word}` instead of its readiness");
            Err(CommandError::internal(what))
        }
        DaemonStart::Exited(status) => {
            let words = read_log_from(log_path, begin);
            Ok(Err(FailedStart { exit: known_exit(status), words }))
        }
    }
}

fn known_exit(status: ExitStatus) -> Option<Exit> {
    let known = [Exit::TryLater, Exit::Config, Exit::Unavailable];
    known.into_iter().find(|exit| status.code() == Some(*exit as i32))
}

fn read_log_from(path: &Path, begin: u64) -> String {
    let log = fs::read(path).unwrap_or_default();
    let begin = usize::try_from(begin).unwrap_or(0).min(log.len());
    let words = String::from_utf8_lossy(&log[begin..]);
    let words = words.trim();
    let words = words.strip_prefix("angelia: ").unwrap_or(words);
    if words.is_empty() { explain_silence(path) } else { words.to_owned() }
}

/// Explains why a daemon wrote nothing to its log. A log that cannot be written swallows the
/// reason.
fn explain_silence(path: &Path) -> String {
    let log = OpenOptions::new().append(true).open(path);
    match log.and_then(|mut log| log.write_all(b"\n")) {
        Ok(()) => format!("it said nothing; see {}", path.display()),
        Err(error) => format!(
            "its log {} cannot be written: {error}; check the space on the disk, then try again",
            path.display()
        ),
    }
}

/// Why a process was not ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EndFailure {
    /// The process could not be identified, so it got no signal.
    NotProven,
    /// The process does not react.
    StillRunning,
}

/// A process that the kernel has identified as the wanted one.
pub(crate) struct ProvenProcess {
    pub(crate) pid: u32,
    handle: ProcessHandle,
}

impl ProvenProcess {
    /// Asks the kernel whether this pid is the wanted process. `is_running` returns whether the
    /// process still holds its files; `is_proven` returns whether the kernel confirms that. A
    /// process that has released everything needs no proof, because it gets no signal. Returns
    /// `None` if the process is gone.
    pub(crate) async fn prove<P: Future<Output = bool>>(
        pid: u32,
        is_running: impl Fn() -> bool,
        is_proven: impl Fn() -> P,
    ) -> Result<Option<Self>, EndFailure> {
        // Open the handle before the proof, so that the proof is about the process that gets the
        // signal and not about a later one with the same pid.
        let handle = i32::try_from(pid).ok().and_then(Pid::from_raw).and_then(ProcessHandle::open);
        let Some(handle) = handle else { return Ok(None) };
        if is_running() && !is_proven().await && is_running() {
            return Err(EndFailure::NotProven);
        }
        Ok(Some(Self { pid, handle }))
    }

    /// Ends the process with these signals. After each signal, waits up to the given time until the
    /// process has released everything and is gone.
    pub(crate) async fn end(
        self,
        signals: &[(Signal, Duration)],
        is_running: impl Fn() -> bool,
    ) -> Result<(), EndFailure> {
        let has_ended = || !is_running() && !self.handle.is_current();
        for (signal, wait) in signals {
            // A process that has released everything is about to exit on its own.
            if is_running() {
                self.handle.signal(*signal);
            }
            let deadline = Instant::now() + *wait;
            // The kernel releases the locks of a killed process a moment after the process is gone,
            // so wait for both.
            while Instant::now() < deadline {
                if has_ended() {
                    return Ok(());
                }
                sleep(POLL_INTERVAL).await;
            }
        }
        if is_running() { Err(EndFailure::StillRunning) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_cannot_be_written_is_the_reason_for_silence() {
        let why = explain_silence(Path::new("/dev/full"));
        assert!(why.contains("No space left on device") && why.contains("the space"), "{why}");
        assert!(explain_silence(Path::new("/dev/null")).starts_with("it said nothing"));
    }
}
