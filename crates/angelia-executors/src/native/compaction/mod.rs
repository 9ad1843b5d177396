//! Shortens a conversation that gets too long for its model: a summary takes the place of everything
//! between its first messages and its last ones. Pure; `turn/compaction.rs` asks for the summary. The
//! design is in `docs/design/0034-compaction.md`.
//!
//! - [`size`]: how many tokens messages take, by their size and by what the provider reports.
//! - [`gauge`]: how full the window is, and when that is too full.
//! - [`plan`]: which messages stay.
//! - [`shortened`]: the conversation that a plan and a summary leave.
//! - [`digest`]: long texts and results of tools in few words.
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
