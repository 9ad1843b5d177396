//! The executor on the real Codex, against the scripted model: private home, cleared environment,
//! dummy key, loopback only.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod approvals;
mod failures;
mod harness;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "../isolated_executor/mod.rs"]
mod isolated_executor;
mod killed;
mod login;
mod machine;
mod model_mode;
mod schema;
mod sealed;
mod sessions;
mod turns;
mod warm;
