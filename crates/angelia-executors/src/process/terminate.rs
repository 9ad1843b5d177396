//! Stops a child: closes stdin, then SIGTERM, SIGKILL, and a sweep for its descendants.
//!
//! It starts after the protocol's own interrupt, which is up to the caller. Output is drained in
//! every stage: a child that blocks on a full pipe could not react to the signal, and its last
//! lines are worth keeping.

use std::{process::ExitStatus, time::Duration};

use rustix::process::Signal;
use tokio::{
    io::AsyncReadExt,
    process::ChildStdout,
    select,
    time::{Instant, sleep, timeout},
};

use super::{
    child::Child,
    sweep::{self, SweptProcess},
};

const READ_BYTES: usize = 64 * 1024;

/// How long to wait in each stage of the stop sequence.
#[derive(Clone, Copy, Debug)]
pub struct StopTimeouts {
    /// After closing stdin. Most agents then finish their work before they exit.
    pub after_eof: Duration,
    /// After SIGTERM to the group.
    pub after_term: Duration,
    /// After SIGKILL; only a process stuck in the kernel takes longer.
    pub after_kill: Duration,
    /// After the exit, for the end of output, because a descendant may hold the pipe open.
    pub output_drain: Duration,
    /// Between SIGTERM and SIGKILL for the child's descendants.
    pub sweep_grace: Duration,
}

impl Default for StopTimeouts {
    fn default() -> Self {
        Self::with_grace(Duration::from_secs(4))
    }
}

impl StopTimeouts {
    /// Returns timeouts that reach SIGKILL after `grace`.
    pub fn with_grace(grace: Duration) -> Self {
        Self {
            after_eof: grace / 4,
            after_term: grace / 4 * 3,
            after_kill: Duration::from_secs(5),
            output_drain: Duration::from_millis(500),
            sweep_grace: Duration::from_millis(500),
        }
    }
}

/// The stage of the stop sequence in which the child exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopStage {
    /// The child had exited before the sequence began.
    AlreadyExited,
    StdinClosed,
    Terminated,
    Killed,
    /// The child is stuck in the kernel; it dies when its system call returns.
    Stuck,
}

/// How a child was terminated.
#[derive(Clone, Debug)]
pub struct Termination {
    /// `None` only for [`StopStage::Stuck`].
    pub status: Option<ExitStatus>,
    pub stage: StopStage,
    /// The output was still open [`StopTimeouts::output_drain`] after the exit, and was abandoned.
    pub leaked: bool,
    /// The leftover processes that the sweep found.
    pub swept: Vec<SweptProcess>,
    pub elapsed: Duration,
}

/// Terminates a child and every process it started. Remaining stdout goes to `on_stdout`, unless
/// the caller has taken [`Child::stdout`] and drains it itself; then only stderr can leak here.
///
/// Dropping the future kills the child at once, because that drops the [`Child`].
pub async fn terminate(
    mut child: Child,
    ladder: &StopTimeouts,
    on_stdout: impl FnMut(&[u8]),
) -> Termination {
    let began = Instant::now();
    let mut output =
        StdoutDrain { pipe: child.stdout.take(), chunk: vec![0; READ_BYTES], on_stdout };

    let rung = run_stages(&mut child, ladder, &mut output).await;
    let closed = timeout(ladder.output_drain, async {
        output.drain().await;
        child.wait_stderr_closed().await;
    });
    let leaked = closed.await.is_err();
    drop(output);
    child.abandon_stderr();

    // The zombie still holds the group id, so signalling the group is safe. Send SIGTERM now, and
    // SIGKILL once the sweep has given the marked processes time to exit.
    send_sigterm(&mut child);
    let swept = sweep::sweep_agent(child.mark(), child.ledger(), ladder.sweep_grace).await;
    child.signal_group(Signal::KILL);
    let ended =
        Termination { status: child.reap(), stage: rung, leaked, swept, elapsed: began.elapsed() };
    tracing::debug!(pid = child.pid(), ?ended, "agent process ended");
    ended
}

async fn run_stages<F: FnMut(&[u8])>(
    child: &mut Child,
    ladder: &StopTimeouts,
    output: &mut StdoutDrain<F>,
) -> StopStage {
    if child.try_exit_status().is_some() {
        return StopStage::AlreadyExited;
    }
    // Record the descendants now: once the child exits, they lose their parent.
    child.record_descendants();
    drop(child.stdin.take());
    if output.drain_until_exit(child, ladder.after_eof).await {
        return StopStage::StdinClosed;
    }
    send_sigterm(child);
    if output.drain_until_exit(child, ladder.after_term).await {
        return StopStage::Terminated;
    }
    child.signal_group(Signal::KILL);
    if output.drain_until_exit(child, ladder.after_kill).await {
        return StopStage::Killed;
    }
    StopStage::Stuck
}

/// Sends SIGTERM to the group. A stopped process must be continued to receive it.
fn send_sigterm(child: &mut Child) {
    child.signal_group(Signal::TERM);
    child.signal_group(Signal::CONT);
}

/// The rest of the child's stdout, read through one buffer.
struct StdoutDrain<F> {
    pipe: Option<ChildStdout>,
    chunk: Vec<u8>,
    on_stdout: F,
}

impl<F: FnMut(&[u8])> StdoutDrain<F> {
    /// Reads until the child has exited (`true`) or the grace period is over (`false`).
    async fn drain_until_exit(&mut self, child: &mut Child, grace: Duration) -> bool {
        let over = sleep(grace);
        tokio::pin!(over);
        loop {
            // Biased in this order, so that a flood of output delays neither exit nor timeout.
            select! {
                biased;
                _ = child.wait_exit() => return true,
                () = &mut over => return false,
                () = self.read(), if self.pipe.is_some() => {}
            }
        }
    }

    /// Reads stdout to its end.
    async fn drain(&mut self) {
        while self.pipe.is_some() {
            self.read().await;
        }
    }

    async fn read(&mut self) {
        if let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut self.chunk).await {
                Ok(read @ 1..) => (self.on_stdout)(&self.chunk[..read]),
                // End of output, or the pipe is unusable.
                Ok(0) | Err(_) => self.pipe = None,
            }
        }
    }
}
