//! The ACP executor on an agent that does what its prompts say: the client requests it makes, its
//! unexpected messages, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod endings;
mod files;
mod lab;
mod opening;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "../place/mod.rs"]
mod place;
mod talking;
mod terminals;
