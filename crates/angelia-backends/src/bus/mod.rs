//! The message bus: messages wait for their receivers. `docs/design/0004-bus.md` explains the
//! design.
//!
//! - [`LocalBus`]: a log on this machine's disk; an accepted message is synced.
//! - [`MemoryBus`]: for tests and for programs that keep nothing.
//! - `index`: the listeners and the queues, in memory. Both buses use it; it does no I/O.
//! - `bus_core`: the [`Bus`](angelia_core::ports::Bus) port on top of the index and a storage.
//! - `dedupe`: recognises repeated messages; `backpressure`: slows down senders that are too fast.

mod backpressure;
mod bus_core;
mod dedupe;
mod index;
mod limits;
mod local;
mod memory;

pub use limits::{BusLimits, MAX_MESSAGE_BYTES};
pub use local::{LocalBus, OpenBusError};
pub use memory::MemoryBus;
