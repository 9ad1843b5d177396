//! The executor on the real Claude Code, oldest and newest version, against the scripted model:
//! private home, cleared environment, dummy key, loopback only.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says on which version"
)]

mod approvals;
mod failures;
mod harness;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "../isolated_executor/mod.rs"]
mod isolated_executor;
mod model_mode;
mod prompt;
mod reports;
mod sandbox;
mod sealed;
mod sessions;
mod text;
mod turns;
mod warm;
