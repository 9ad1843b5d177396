//! The stop ladder: from asking to killing, then nothing of the agent is left.
//!
//! It starts where the protocol's own interrupt (the caller's business) has ended. Output is
//! drained on every rung: a child that waits for room in a full pipe would never see the signal's
//! consequences, and its last lines are worth having.

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
    sweep::{self, Swept},
};

const CHUNK: usize = 64 * 1024;

/// How long to wait on each rung.
#[derive(Clone, Copy, Debug)]
pub struct Ladder {
    /// After closing stdin. For most agents that is "finish and leave", but not a stop.
    pub after_eof: Duration,
    /// After SIGTERM to the group.
    pub after_term: Duration,
    /// After SIGKILL; only a process stuck in the kernel takes longer.
    pub after_kill: Duration,
    /// After the exit, for the end of output: somebody the child left behind may hold the pipe.
    pub leak: Duration,
    /// Between SIGTERM and SIGKILL for what the child left behind.
    pub sweep: Duration,
}

impl Default for Ladder {
    fn default() -> Self {
        Self::within(Duration::from_secs(4))
    }
}

impl Ladder {
    /// A ladder that reaches SIGKILL after `grace`.
    pub fn within(grace: Duration) -> Self {
        Self {
            after_eof: grace / 4,
            after_term: grace / 4 * 3,
            after_kill: Duration::from_secs(5),
            leak: Duration::from_millis(500),
            sweep: Duration::from_millis(500),
        }
    }
}

/// The rung on which the child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// It had exited before.
    Before,
    StdinClosed,
    Terminated,
    Killed,
    /// It is stuck in the kernel and dies when that lets go of it.
    Stuck,
}

/// How a child ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// `None` only if it is [`Rung::Stuck`].
    pub status: Option<ExitStatus>,
    pub rung: Rung,
    /// Its output was still open, [`Ladder::leak`] after its exit, and has been abandoned.
    pub leaked: bool,
    /// What it had left behind, and is gone now.
    pub swept: Vec<Swept>,
    pub took: Duration,
}

/// Ends a child and everything it started. What it still says on stdout goes to `on_stdout` (unless
/// the caller has taken [`Child::stdout`] and drains it himself; then only stderr can leak here).
///
/// Dropping the future is the short cut: it kills at once, by [`Child`]'s drop.
pub async fn terminate(mut child: Child, ladder: &Ladder, on_stdout: impl FnMut(&[u8])) -> Ended {
    let began = Instant::now();
    let mut output = Output { pipe: child.stdout.take(), chunk: vec![0; CHUNK], on_stdout };

    let rung = climb(&mut child, ladder, &mut output).await;
    let closed = timeout(ladder.leak, async {
        output.drain().await;
        child.stderr_closed().await;
    });
    let leaked = closed.await.is_err();
    drop(output);
    child.abandon_stderr();

    // The zombie still holds the group id, so whoever stayed in the group can be told safely, now
    // and once more after the sweep has given everybody who carries the mark time to leave.
    ask(&mut child);
    let swept = sweep::sweep_agent(child.mark(), child.ledger(), ladder.sweep).await;
    child.signal_group(Signal::KILL);
    let ended = Ended { status: child.collect(), rung, leaked, swept, took: began.elapsed() };
    tracing::debug!(pid = child.pid(), ?ended, "agent process ended");
    ended
}

async fn climb<F: FnMut(&[u8])>(
    child: &mut Child,
    ladder: &Ladder,
    output: &mut Output<F>,
) -> Rung {
    if child.try_exited().is_some() {
        return Rung::Before;
    }
    child.note_descendants();
    drop(child.stdin.take());
    if output.drain_until_exit(child, ladder.after_eof).await {
        return Rung::StdinClosed;
    }
    ask(child);
    if output.drain_until_exit(child, ladder.after_term).await {
        return Rung::Terminated;
    }
    child.signal_group(Signal::KILL);
    if output.drain_until_exit(child, ladder.after_kill).await {
        return Rung::Killed;
    }
    Rung::Stuck
}

/// SIGTERM to the group; a stopped process must be continued to hear it.
fn ask(child: &mut Child) {
    child.signal_group(Signal::TERM);
    child.signal_group(Signal::CONT);
}

/// What the child still says, read through one buffer.
struct Output<F> {
    pipe: Option<ChildStdout>,
    chunk: Vec<u8>,
    on_stdout: F,
}

impl<F: FnMut(&[u8])> Output<F> {
    /// Reads until the child has exited (`true`) or the time is over.
    async fn drain_until_exit(&mut self, child: &mut Child, grace: Duration) -> bool {
        let over = sleep(grace);
        tokio::pin!(over);
        loop {
            // In this order, so that a flood can delay neither.
            select! {
                biased;
                _ = child.exited() => return true,
                () = &mut over => return false,
                () = self.read(), if self.pipe.is_some() => {}
            }
        }
    }

    /// Reads to the end.
    async fn drain(&mut self) {
        while self.pipe.is_some() {
            self.read().await;
        }
    }

    async fn read(&mut self) {
        if let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut self.chunk).await {
                Ok(read @ 1..) => (self.on_stdout)(&self.chunk[..read]),
                // The end, or a pipe that is no use any more.
                Ok(0) | Err(_) => self.pipe = None,
            }
        }
    }
}
