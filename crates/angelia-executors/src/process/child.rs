//! A running child and its whole process group.
//!
//! The child is not reaped before the last signal has been sent. As long as it is running or a
//! zombie, the kernel gives neither its pid nor its group id to anybody else; so a signal to the
//! group can never reach strangers. Its exit is therefore looked at (`WNOWAIT`), not collected.

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
    mark::Mark,
    os::{self, StartTime},
    spawn::Launch,
    stderr::{self, StderrTail},
    sweep,
};

/// A child with its pipes. End it with [`terminate`](super::terminate::terminate()); dropping it
/// kills its group and everything that carries its mark, without asking.
#[derive(Debug)]
pub struct Child {
    /// Take it to write from elsewhere; then closing it is the taker's business too.
    pub stdin: Option<ChildStdin>,
    /// Raw bytes. Whoever takes it must keep reading until the end, or the child blocks.
    pub stdout: Option<ChildStdout>,
    inner: tokio::process::Child,
    pid: Pid,
    start: Option<StartTime>,
    mark: Mark,
    ledger: PathBuf,
    stderr: StderrTail,
    readers: JoinSet<()>,
    deaths: SignalStream,
    life: Life,
}

#[derive(Clone, Copy, Debug)]
enum Life {
    Running,
    /// A zombie: it holds its pid until we collect it.
    Exited(ExitStatus),
    /// Collected: its pid may already be somebody else's.
    Collected(ExitStatus),
}

/// Stands for the exit status that somebody else has collected (nobody should).
const LOST_STATUS: i32 = 255 << 8;

impl Child {
    /// Hears of every child's death in this process.
    pub(super) fn watch_deaths() -> io::Result<SignalStream> {
        signal(SignalKind::child())
    }

    pub(super) fn adopt(
        mut inner: tokio::process::Child,
        deaths: SignalStream,
        launch: &Launch,
    ) -> io::Result<Self> {
        let pid = inner
            .id()
            .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            .ok_or_else(|| io::Error::other("the system gave it no pid"))?;
        let stderr = StderrTail::default();
        let mut readers = JoinSet::new();
        if let Some(pipe) = inner.stderr.take() {
            readers.spawn(stderr::drain(pipe, stderr.clone()));
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
            deaths,
            life: Life::Running,
        };
        child.note_descendants();
        Ok(child)
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Together with the pid it names one process, also when the pid has been given away.
    pub fn start_time(&self) -> Option<StartTime> {
        self.start
    }

    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its last words; the handle stays valid after the child.
    pub fn stderr(&self) -> StderrTail {
        self.stderr.clone()
    }

    /// How it ended, if it has. (Code 255 if somebody else collected the status.)
    pub fn try_exited(&mut self) -> Option<ExitStatus> {
        if let Life::Running = self.life {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(self.pid), options) {
                Ok(Some(status)) => self.life = Life::Exited(exit_status(&status)),
                Err(Errno::CHILD) => {
                    tracing::error!(pid = self.pid(), "somebody else collected a child's status");
                    self.life = Life::Collected(ExitStatus::from_raw(LOST_STATUS));
                }
                Ok(None) | Err(_) => {}
            }
        }
        match self.life {
            Life::Running => None,
            Life::Exited(status) | Life::Collected(status) => Some(status),
        }
    }

    /// Waits for its end. It stays a zombie until terminated or dropped. Cancel-safe.
    pub async fn exited(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.try_exited() {
                return status;
            }
            if self.deaths.recv().await.is_none() {
                // The runtime is shutting down; this task is about to be dropped.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Signals the child and whatever is in its group; does nothing once the group id is free.
    pub(super) fn signal_group(&mut self, signal: Signal) {
        self.try_exited();
        if !matches!(self.life, Life::Collected(_)) {
            // The error would be "nobody left", which is what we want.
            _ = kill_process_group(self.pid, signal);
        }
    }

    /// Waits until stderr is closed by everybody who holds it.
    pub(crate) async fn stderr_closed(&mut self) {
        while self.readers.join_next().await.is_some() {}
    }

    /// Gives up on a stderr that a survivor holds open.
    pub(super) fn abandon_stderr(&mut self) {
        self.readers.abort_all();
    }

    /// Collects the zombie and frees its pid: the last thing done to a child.
    pub(super) fn collect(&mut self) -> Option<ExitStatus> {
        let status = self.try_exited()?;
        if let Life::Exited(_) = self.life {
            _ = self.inner.try_wait();
            self.life = Life::Collected(status);
            os::forget(&self.ledger, &self.mark);
        }
        Some(status)
    }

    /// Keeps on disk what the environment of processes cannot tell on this system.
    pub(super) fn note_descendants(&self) {
        if let Err(error) = os::record(&self.ledger, &self.mark, self.pid) {
            let ledger = self.ledger.display();
            tracing::warn!(%ledger, %error, "an agent's processes could not be noted");
        }
    }

    pub(super) fn ledger(&self) -> &Path {
        &self.ledger
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !matches!(self.life, Life::Collected(_)) {
            self.signal_group(Signal::KILL);
            sweep::kill_agent_now(&self.mark, &self.ledger);
            // What is left is collected by tokio, in the background.
        }
    }
}

fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    const CORE_DUMPED: i32 = 0x80;
    let raw = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, Some(signal)) if status.dumped() => signal | CORE_DUMPED,
        (None, Some(signal)) => signal,
        (None, None) => LOST_STATUS,
    };
    ExitStatus::from_raw(raw)
}
