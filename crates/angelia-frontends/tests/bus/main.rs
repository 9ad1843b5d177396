//! The bus's socket, with a bus in memory behind it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod isolation;
mod names;
mod recorded;
mod silent;
mod socket;
mod stage;
