//! The ACP executor on an agent that does what its prompts say: the client requests it makes, its
//! unexpected messages, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod endings;
mod files;
mod harness;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "../isolated_executor/mod.rs"]
mod isolated_executor;
mod opening;
mod talking;
mod terminals;
