//! The buses: the conformance suite over each, and what only a log on disk can go through.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod cut;
mod model;
mod place;
mod space;
