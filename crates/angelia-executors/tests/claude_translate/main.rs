//! The Claude translator against all recordings of two versions of the CLI.

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
