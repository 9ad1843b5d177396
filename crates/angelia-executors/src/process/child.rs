//! A running child process and its process group.
//!
//! The child is not reaped before the last signal has been sent. While it is running or a zombie,
//! the kernel reuses neither its pid nor its group id, so a signal to the group cannot hit an
//! unrelated process. Until then its exit is only observed (`WNOWAIT`).

use std::{
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::ExitStatus,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid},
};
use tokio::{
    process::{ChildStdin, ChildStdout},
    signal::unix::{Signal as SignalStream, SignalKind, signal},
    task::JoinSet,
};

use super::{
    mark::ProcessMark,
    os::{self, StartTime},
    spawn::ProcessLaunch,
    stderr::{self, LineListener, StderrTail},
    sweep,
};

/// A child process with its pipes. Stop it with [`terminate`](super::terminate::terminate());
/// dropping it kills its group and every process that carries its mark, without SIGTERM.
#[derive(Debug)]
pub struct Child {
    /// Code that takes the pipe to write elsewhere must also close it.
    pub stdin: Option<ChildStdin>,
    /// Raw bytes. Code that takes the pipe must read it to the end, or the child blocks.
    pub stdout: Option<ChildStdout>,
    inner: tokio::process::Child,
    pid: Pid,
    start: Option<StartTime>,
    mark: ProcessMark,
    ledger: PathBuf,
    stderr: StderrTail,
    readers: JoinSet<()>,
    sigchld: SignalStream,
    state: ChildState,
}

#[derive(Clone, Copy, Debug)]
enum ChildState {
    Running,
    /// A zombie: it holds its pid until we reap it.
    Exited(ExitStatus),
    /// Reaped: the kernel may already have reused its pid.
    Reaped(ExitStatus),
}

/// The wait status to report if other code has reaped the child, which should not happen.
const UNKNOWN_STATUS: i32 = 255 << 8;

impl Child {
    /// Returns a stream of SIGCHLD, which reports the exit of any child of this process.
    pub(super) fn watch_sigchld() -> io::Result<SignalStream> {
        signal(SignalKind::child())
    }

    pub(super) fn supervise(
        mut inner: tokio::process::Child,
        deaths: SignalStream,
        launch: &ProcessLaunch,
        listener: Option<LineListener>,
    ) -> io::Result<Self> {
        let pid = inner
            .id()
            .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            .ok_or_else(|| io::Error::other("the system reported no pid for the child"))?;
        let stderr = StderrTail::default();
        let mut readers = JoinSet::new();
        if let Some(pipe) = inner.stderr.take() {
            readers.spawn(stderr::drain(pipe, stderr.clone(), listener));
        }
        let child = Self {
            stdin: inner.stdin.take(),
            stdout: inner.stdout.take(),
            inner,
            pid,
            start: os::start_time(pid),
            mark: launch.mark.clone(),
            ledger: launch.ledger.clone(),
            stderr,
            readers,
            sigchld: deaths,
            state: ChildState::Running,
        };
        child.record_descendants();
        Ok(child)
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns the start time. Pid and start time identify the process even if the pid is reused.
    pub fn start_time(&self) -> Option<StartTime> {
        self.start
    }

    pub fn mark(&self) -> &ProcessMark {
        &self.mark
    }

    /// Returns the tail of the child's stderr. The handle stays valid after the child has exited.
    pub fn stderr(&self) -> StderrTail {
        self.stderr.clone()
    }

    /// Returns the exit status if the child has exited; code 255 if other code reaped the child.
    pub fn try_exit_status(&mut self) -> Option<ExitStatus> {
        if let ChildState::Running = self.state {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(self.pid), options) {
                Ok(Some(status)) => self.state = ChildState::Exited(exit_status(&status)),
                Err(Errno::CHILD) => {
                    tracing::error!(pid = self.pid(), "a child was reaped elsewhere");
                    self.state = ChildState::Reaped(ExitStatus::from_raw(UNKNOWN_STATUS));
                }
                Ok(None) | Err(_) => {}
            }
        }
        match self.state {
            ChildState::Running => None,
            ChildState::Exited(status) | ChildState::Reaped(status) => Some(status),
        }
    }

    /// Waits for the exit. The child stays a zombie until terminated or dropped. Cancel-safe.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.try_exit_status() {
                return status;
            }
            if self.sigchld.recv().await.is_none() {
                // The runtime is shutting down; this task is about to be dropped.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Signals the child and its process group; does nothing once the child has been reaped.
    pub(super) fn signal_group(&mut self, signal: Signal) {
        self.try_exit_status();
        if !matches!(self.state, ChildState::Reaped(_)) {
            // The only possible error is that the group has no processes left, which is fine.
            _ = kill_process_group(self.pid, signal);
        }
    }

    /// Waits until every process that holds stderr has closed it.
    pub(crate) async fn wait_stderr_closed(&mut self) {
        while self.readers.join_next().await.is_some() {}
    }

    /// Stops reading stderr, which a surviving descendant may hold open.
    pub(super) fn abandon_stderr(&mut self) {
        self.readers.abort_all();
    }

    /// Reaps the zombie, which frees its pid. This must be the last operation on a child.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        let status = self.try_exit_status()?;
        if let ChildState::Exited(_) = self.state {
            _ = self.inner.try_wait();
            self.state = ChildState::Reaped(status);
            os::remove_from_ledger(&self.ledger, &self.mark);
        }
        Some(status)
    }

    /// Records the child and its descendants in the ledger, on systems where environments cannot
    /// be read.
    pub(super) fn record_descendants(&self) {
        if let Err(error) = os::record_in_ledger(&self.ledger, &self.mark, self.pid) {
            let ledger = self.ledger.display();
            tracing::warn!(%ledger, %error, "cannot record an agent's processes in the ledger");
        }
    }

    pub(super) fn ledger(&self) -> &Path {
        &self.ledger
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !matches!(self.state, ChildState::Reaped(_)) {
            self.signal_group(Signal::KILL);
            sweep::kill_agent_now(&self.mark, &self.ledger);
            // tokio reaps the child in the background.
        }
    }
}

fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    const CORE_DUMPED: i32 = 0x80;
    let raw = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, Some(signal)) if status.dumped() => signal | CORE_DUMPED,
        (None, Some(signal)) => signal,
        (None, None) => UNKNOWN_STATUS,
    };
    ExitStatus::from_raw(raw)
}
