//! Shortens a conversation that gets too long for its model: a summary replaces everything between
//! the first and the last messages. Pure; `turn/compaction.rs` requests the summary. The design is
//! in `docs/design/0034-compaction.md`.
//!
//! - [`size`]: estimates the tokens of messages, and scales estimates to what the provider reports.
//! - [`gauge`]: how full the window is, and when it is too full.
//! - [`plan`]: which messages stay.
//! - [`shortened`]: the conversation that a plan and a summary leave.
//! - [`digest`]: shortens long texts and tool results.
//! - [`summary_request`]: the conversation that asks for a summary.
//! - [`attempts`]: when to try again after compactions that failed or did not help.
//! - [`record`]: a compaction as an event of its turn.

pub mod attempts;
pub mod digest;
pub mod gauge;
pub mod plan;
pub mod record;
pub mod shortened;
pub mod size;
pub mod summary_request;
