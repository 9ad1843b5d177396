//! What the model APIs have in common, without a dialect: events to pieces, histories to hashes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod events;
mod shown;
mod shown_invariants;
