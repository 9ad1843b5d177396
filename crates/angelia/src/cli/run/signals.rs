//! Signals that stop a turn: Ctrl-C, SIGTERM and SIGHUP. The second one kills.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// How a signal asks the turn to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// Interrupt the turn through the agent's protocol.
    Interrupt,
    /// Kill the agent's process now.
    Kill,
}

#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    received: u32,
}

impl StopSignals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            received: 0,
        })
    }

    /// Waits for the next signal: the first one interrupts, every further one kills. Cancel safe.
    pub(crate) async fn next(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
        self.received += 1;
        if self.received == 1 { StopRequest::Interrupt } else { StopRequest::Kill }
    }
}

/// Waits for the next signal, or forever if there is no listener.
pub(crate) async fn next_stop(wishes: &mut Option<StopSignals>) -> StopRequest {
    match wishes {
        Some(wishes) => wishes.next().await,
        None => std::future::pending().await,
    }
}
