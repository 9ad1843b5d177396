//! The executor on the real Codex, against the scripted model: private home, cleared environment,
//! dummy key, loopback only.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod approvals;
mod failures;
mod killed;
mod lab;
mod machine;
mod model_mode;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "../place/mod.rs"]
mod place;
mod schema;
mod sessions;
mod turns;
mod warm;
