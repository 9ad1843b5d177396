//! Codex through the program: the settings it writes into the owner's Codex configuration, the
//! model APIs on the real Codex with a scripted model, and when Codex is used at all.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../cli/agents.rs"]
#[expect(dead_code, reason = "shared with the tests of the commands")]
mod agents;
mod bench;
mod dialects;
mod files;
mod models;
#[path = "../real_http/post.rs"]
#[expect(dead_code, reason = "shared with the tests of the other agent")]
mod post;
mod runtime;
mod settings;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/stage.rs"]
mod stage;
mod strict;
mod tools;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
