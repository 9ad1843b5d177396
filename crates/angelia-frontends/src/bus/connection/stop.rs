//! The end of a connection when the bus stops. Everything that the client has written is still
//! read, published and answered: clients of hermes-bus do not wait for an answer, and count a
//! message as sent once it is written.

use rustix::net::{Shutdown, shutdown};
use tokio::time::{Duration, Instant};

use super::{BusConnection, CloseReason, ConnectionPhase};

/// The time limit for a receiver to acknowledge its messages. It gets unacknowledged ones again.
const ACK_TIMEOUT: Duration = Duration::from_millis(500);

/// The time limit for ending a connection. Without it, a client that does not read its answers
/// could delay the stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

impl BusConnection {
    pub(super) fn begin_stop(&mut self) -> Result<(), CloseReason> {
        let now = Instant::now();
        self.stop_deadline = Some(now + STOP_TIMEOUT);
        match self.phase {
            ConnectionPhase::Displaced => return Err(CloseReason::Closed),
            ConnectionPhase::Open => self.phase = ConnectionPhase::Stopping,
            ConnectionPhase::Stopping | ConnectionPhase::Closing => {}
        }
        self.timer.as_mut().reset(now + ACK_TIMEOUT);
        self.end_input_if_acknowledged();
        Ok(())
    }

    pub(super) fn end_input_if_acknowledged(&self) {
        if self.phase == ConnectionPhase::Stopping && !self.in_flight.awaits_acks() {
            self.end_input();
        }
    }

    /// Makes the client's next write fail. Data that it wrote before can still be read; the end of
    /// the stream follows it.
    fn end_input(&self) {
        if let Err(error) = shutdown(&self.stream, Shutdown::Read) {
            // The client has disconnected, which reading reports as well.
            tracing::debug!(%error, "cannot end a client's input");
        }
    }

    pub(super) fn on_stop_timer(
        &mut self,
        now: Instant,
        deadline: Instant,
    ) -> Result<(), CloseReason> {
        if now >= deadline {
            return Err(CloseReason::Closed);
        }
        if self.phase == ConnectionPhase::Stopping {
            self.end_input();
        }
        self.timer.as_mut().reset(deadline);
        Ok(())
    }
}
