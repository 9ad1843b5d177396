//! The model APIs on the real Claude Code with a scripted model: sessions matched by history, the
//! caller's tools, and that model mode can read nothing of this machine.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../cli/agents.rs"]
mod agents;
#[expect(dead_code, reason = "shared with the tests of real clients")]
#[path = "../real_clients/bench.rs"]
mod bench;
mod files;
mod forms;
mod plano;
mod post;
mod sessions;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/stage.rs"]
mod stage;
mod tools;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
