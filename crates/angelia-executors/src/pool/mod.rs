//! Processes that are started before they are needed.
//!
//! - [`warm`]: what callers see: declare a shape, take a process of it.
//! - `stock`: the pure bookkeeping behind it: what to start next, what to let go.

mod stock;
pub mod warm;

pub(crate) use stock::VERSION;
pub use warm::{Start, Warm, WarmPool};
