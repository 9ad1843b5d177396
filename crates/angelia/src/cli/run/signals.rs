//! Ctrl-C, once and twice; and being told to go.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a person at the keyboard, or the system, wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Stop the turn by protocol.
    Interrupt,
    /// Stop it now, by ending its process.
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

    /// The next wish; the second one is never patient. Cancel safe.
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

/// The next wish, where somebody listens for them.
pub(crate) async fn next(wishes: &mut Option<Wishes>) -> Wish {
    match wishes {
        Some(wishes) => wishes.next().await,
        None => std::future::pending().await,
    }
}
