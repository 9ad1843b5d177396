//! The Codex translator against all recordings of the app-server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
#[path = "../translated/approval_rules.rs"]
mod approval_rules;
mod context;
mod driver;
mod failures;
mod invariants;
mod must_not_assume;
mod questions;
#[path = "../translated/recorded.rs"]
mod recorded;
mod requests;
mod schema;
mod snapshots;
mod spell;
#[path = "../translated/mod.rs"]
mod translated;
mod turns;
