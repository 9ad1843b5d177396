//! The engine with an agent that the test controls, and a store in memory.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod approvals;
mod change;
mod compaction;
mod drain;
mod edit_diffs;
mod governance;
mod grants;
mod harness;
mod hot;
mod life;
mod lost_conversation;
mod output;
mod quota;
mod recovery;
mod schedules;
mod spend;
mod store_failure;
mod watching;
