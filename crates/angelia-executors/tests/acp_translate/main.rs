//! The ACP translator against the recordings of three agents.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../translated/approval_rules.rs"]
mod approval_rules;
mod context;
mod driver;
mod invariants;
mod must_not_assume;
#[path = "../translated/recorded.rs"]
mod recorded;
mod requests;
mod snapshots;
#[path = "../translated/mod.rs"]
mod translated;
