//! The parts that the model APIs share, without a dialect: events to answer chunks, histories to
//! hashes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod events;
mod shown;
mod shown_invariants;
