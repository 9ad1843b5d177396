//! The bus's socket, with a bus in memory behind it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod agents;
mod asking;
mod frames;
mod harness;
mod invariants;
mod isolation;
mod names;
mod recorded;
mod silent;
mod socket;
mod stopping;
