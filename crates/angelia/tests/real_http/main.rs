//! The model APIs on the real Claude Code with a scripted model: sessions matched by history, the
//! caller's tools, and that model mode can read nothing of this machine.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../cli/agent_processes.rs"]
mod agent_processes;
#[expect(dead_code, reason = "shared with the tests of real clients")]
#[path = "../real_clients/daemon_fixture.rs"]
mod daemon_fixture;
mod files;
mod forms;
#[path = "../cli/lost_transcripts.rs"]
mod lost_transcripts;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod plano;
mod post;
mod sessions;
mod tools;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
