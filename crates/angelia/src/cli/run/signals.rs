//! Signals that stop a turn: Ctrl-C, SIGTERM and SIGHUP. The second one kills.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// How a signal asks the turn to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Interrupt the turn through the agent's protocol.
    Interrupt,
    /// Kill the agent's process now.
    Kill,
}

#[derive(Debug)]
pub(crate) struct Wishes {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    asked: u32,
}

impl Wishes {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            asked: 0,
        })
    }

    /// Waits for the next signal: the first is an interrupt, every further one a kill. Cancel safe.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
        self.asked += 1;
        if self.asked == 1 { Wish::Interrupt } else { Wish::Kill }
    }
}

/// Waits for the next signal; waits forever if there is no listener.
pub(crate) async fn next(wishes: &mut Option<Wishes>) -> Wish {
    match wishes {
        Some(wishes) => wishes.next().await,
        None => std::future::pending().await,
    }
}
