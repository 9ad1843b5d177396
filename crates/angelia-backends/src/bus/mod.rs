//! The message bus: messages wait for their receivers. `docs/design/0004-bus.md` explains the
//! design.
//!
//! - [`LocalBus`]: a log on this machine's disk; an accepted message is synced.
//! - `index`: the listeners and the queues, in memory; it does no I/O.
//! - `bus_core`: the [`Bus`](angelia_core::ports::Bus) port on top of the index and the log.
//! - `dedupe`: recognises repeated messages; `backpressure`: slows down senders that are too fast.

mod backpressure;
mod bus_core;
mod dedupe;
mod index;
mod limits;
mod local;

pub use limits::{BusLimits, MAX_MESSAGE_BYTES};
pub use local::{LocalBus, OpenBusError};
