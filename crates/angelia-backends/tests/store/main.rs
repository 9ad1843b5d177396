//! The stores: the conformance suite over each, and what only a file on disk can go through.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod files;
mod home;
mod processes;
