//! Processes that are started before they are needed.
//!
//! - [`warm`]: the pool as callers use it: declare a launch shape, take a process of that shape.
//! - `state`: the pure bookkeeping: which process to start next, which processes to close.

mod stock;
pub mod warm;

pub(crate) use stock::VERSION;
pub use warm::{Start, Warm, WarmPool};
