//! One suite per port: every implementation must pass the same checks.

pub mod executor;
pub mod store;
