//! The bus: messages that wait for their receivers. `docs/design/0004-bus.md` says why it is so.
//!
//! - [`LocalBus`]: a log on this machine's disk; what is accepted is synced.
//! - [`MemoryBus`]: for tests and for programs that keep nothing.
//! - `index`: who listens and what waits for whom; both use it, neither does I/O in it.

mod index;
mod limits;
mod local;
mod memory;
mod publishing;
mod repeats;
mod shared;

pub use limits::{BusLimits, MAX_MESSAGE};
pub use local::{LocalBus, OpenBusError};
pub use memory::MemoryBus;
