//! Codex through the program: the settings it writes into the owner's Codex configuration, the
//! model APIs on the real Codex with a scripted model, and when Codex is used at all.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../cli/agent_processes.rs"]
#[expect(dead_code, reason = "shared with the tests of the commands")]
mod agent_processes;
mod daemon_fixture;
mod dialects;
mod files;
mod lost;
#[path = "../cli/lost_transcripts.rs"]
mod lost_transcripts;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod models;
#[path = "../real_http/post.rs"]
#[expect(dead_code, reason = "shared with the tests of the other agent")]
mod post;
mod runtime;
mod settings;
mod strict;
mod tools;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
