//! A pool of processes that are started before they are needed.
//!
//! - [`warm`]: the pool's interface: declare a launch shape, take a process of that shape.
//! - `state`: the pure bookkeeping: decides which process to start next and which ones to close.

mod state;
pub mod warm;

pub(crate) use state::VERSION_COMPONENT;
pub use warm::{ProcessStarter, WarmPool, WarmProcess};
