//! The model APIs in front of an engine whose agent does what the test says: which session, which
//! turn, and what is seen of it. How each dialect spells is tested beside the dialects.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod demands;
mod endings;
mod keys;
mod matching;
mod models;
mod once;
mod stage;
mod tools;
