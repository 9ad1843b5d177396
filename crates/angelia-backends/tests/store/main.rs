//! The stores: the conformance suite for each, and the tests that apply only to a file on disk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod baseline;
mod conformance;
mod files;
mod home;
mod processes;
mod reading;
#[cfg(unix)]
mod real_postgres;
