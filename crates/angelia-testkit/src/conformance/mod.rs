//! One suite per port: every implementation must pass the same checks.

pub mod bus;
pub mod channel;
pub mod executor;
pub mod store;
