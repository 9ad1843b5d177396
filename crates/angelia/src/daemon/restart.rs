//! Restarts the daemon: waits for its turns, then replaces the program in this process
//! (`docs/design/0022-the-daemons-life.md`).

use std::{
    collections::HashMap,
    fs::File,
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use angelia_core::{
    engine::Engine,
    model::{TurnId, TurnRecord, TurnState},
};
use angelia_executors::process::release;
use angelia_frontends::http::{RestartProgress, RestartRequest};
use tokio::{
    net::TcpListener,
    sync::mpsc,
    time::{Instant, sleep},
};

use super::ShutdownSignals;
use crate::{assemble::App, cli::error::CommandError};

/// Set if stdin is the listener of the previous program in this process.
const LISTENER_VARIABLE: &str = "ANGELIA_INHERITS_LISTENER";

/// Interval at which a restart checks the turns that it waits for.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServeEnd {
    Stop,
    Restart,
}

/// Serves until a signal or a restart. By then, running turns have had time to end.
pub(super) async fn wait_for_end(
    engine: &Engine,
    drain: &(impl Fn() -> Duration + Sync),
    signals: &mut ShutdownSignals,
    restarts: &mut mpsc::Receiver<RestartRequest>,
) -> ServeEnd {
    loop {
        let request = tokio::select! {
            () = signals.wait() => break,
            Some(request) = restarts.recv() => request,
        };
        tracing::info!("asked to restart; taking no new turns");
        let is_committed = tokio::select! {
            is_committed = wait_for_turns(engine, drain(), &request) => is_committed,
            () = signals.wait() => break,
        };
        if is_committed {
            engine.hand_over();
            tracing::info!("restarting");
            return ServeEnd::Restart;
        }
        engine.end_drain();
        tracing::info!("the restart was cancelled");
    }
    tracing::info!("shutting down");
    // Let running turns end and refuse new ones with a reason. A second signal ends the wait.
    tokio::select! {
        () = engine.drain(drain()) => {}
        () = signals.wait() => {}
    }
    ServeEnd::Stop
}

/// Waits until no turn prevents a restart. Returns `false` if the requesting client has gone.
async fn wait_for_turns(engine: &Engine, drain: Duration, request: &RestartRequest) -> bool {
    engine.begin_drain();
    let mut turns = WaitedTurns::default();
    loop {
        let open = engine.open_turns().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read which turns are running");
            Vec::new()
        });
        let has_changed = turns.update(open, Instant::now());
        if has_changed && request.progress.send(turns.progress()).await.is_err() {
            return false;
        }
        if turns.may_end(drain, request.now) {
            return request.progress.send(RestartProgress::Committed).await.is_ok();
        }
        tokio::select! {
            () = request.progress.closed() => return false,
            () = sleep(CHECK_INTERVAL) => {}
        }
    }
}

/// The turns that a restart waits for.
#[derive(Debug, Default)]
struct WaitedTurns {
    running: Vec<TurnRecord>,
    /// Turns that wait for a person or a caller's tool.
    waiting: Vec<TurnRecord>,
    queued: usize,
    /// When each running turn's time started. A turn that continues after a decision gets its full
    /// time again.
    since: HashMap<TurnId, Instant>,
}

impl WaitedTurns {
    /// Replaces the turns with the current ones. Returns whether they changed.
    fn update(&mut self, open: Vec<TurnRecord>, now: Instant) -> bool {
        let before = (self.ids(), self.queued);
        (self.running, self.waiting) = (Vec::new(), Vec::new());
        self.queued = 0;
        for turn in open {
            match turn.state {
                TurnState::Running => self.running.push(turn),
                TurnState::AwaitingApproval | TurnState::AwaitingToolResult => {
                    self.waiting.push(turn);
                }
                TurnState::Queued | TurnState::HandedOver | TurnState::Parked { .. } => {
                    self.queued += 1;
                }
                TurnState::Finished { .. } => {}
            }
        }
        self.since.retain(|id, _| self.running.iter().any(|turn| turn.id == *id));
        for turn in &self.running {
            self.since.entry(turn.id).or_insert(now);
        }
        before != (self.ids(), self.queued)
    }

    fn ids(&self) -> [Vec<TurnId>; 2] {
        [&self.running, &self.waiting].map(|turns| turns.iter().map(|turn| turn.id).collect())
    }

    fn may_end(&self, drain: Duration, now: bool) -> bool {
        (now || self.waiting.is_empty()) && self.since.values().all(|at| at.elapsed() >= drain)
    }

    fn progress(&self) -> RestartProgress {
        RestartProgress::Waiting {
            running: self.running.iter().map(Into::into).collect(),
            waiting: self.waiting.iter().map(Into::into).collect(),
            queued: self.queued,
        }
    }
}

/// What the next program in this process needs.
pub(super) struct Successor {
    program: PathBuf,
    /// Kept open, so that connections wait for the next program rather than being refused.
    listener: OwnedFd,
}

impl Successor {
    /// Prepares for a restart. Called at startup, because this program's path is gone after an
    /// upgrade.
    pub(super) fn prepare(app: &App, listener: &TcpListener) -> Result<Self, CommandError> {
        let program = crate::program::invoked_program(&app.environment)?;
        let listener = listener.as_fd().try_clone_to_owned().map_err(CommandError::internal)?;
        Ok(Self { program, listener })
    }

    /// Replaces this program. Returns only on failure.
    pub(super) fn start(self, app: &App) -> CommandError {
        let yes = (LISTENER_VARIABLE.as_ref(), "1".as_ref());
        let environment = app.environment.iter().chain([yes]);
        let args = std::env::args_os().skip(1);
        crate::log::flush();
        let error = release::exec_with_listener(&self.program, args, environment, self.listener);
        let message = format!("cannot start {} again: {error}", self.program.display());
        CommandError::internal(message).with_hint("`angelia start` starts the daemon")
    }
}

/// Returns the listener that the previous program left behind, unless the configuration now names
/// another address.
pub(super) fn inherited_listener(app: &App) -> Option<TcpListener> {
    app.environment.non_empty(LISTENER_VARIABLE)?;
    let listener = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    // None of our children may inherit it.
    let nothing = File::open("/dev/null").ok()?;
    rustix::stdio::dup2_stdin(&nothing).ok()?;
    let listener = std::net::TcpListener::from(listener);
    let (is, wanted) = (listener.local_addr().ok()?, app.config.listen());
    let is_wanted = is.ip() == wanted.ip() && [0, is.port()].contains(&wanted.port());
    listener.set_nonblocking(true).ok()?;
    if is_wanted { TcpListener::from_std(listener).ok() } else { None }
}
