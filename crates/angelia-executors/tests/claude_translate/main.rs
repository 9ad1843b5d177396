//! The Claude translator against everything two versions of the CLI were recorded saying.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod context;
mod driver;
mod failures;
mod invariants;
mod must_not_assume;
mod snapshots;
#[path = "../translated/mod.rs"]
mod translated;
mod turns;
