//! The buses: the conformance suite for each, and the tests that apply only to a log on disk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod baseline;
mod conformance;
mod cut;
mod model;
mod space;
mod temp_bus;
