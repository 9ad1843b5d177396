//! Unmodified real clients of the model APIs against `angelia serve` on the real Claude Code with a
//! scripted model. Their scripts are in `tests/clients`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/agent_processes.rs"]
mod agent_processes;
mod anthropic;
mod claude_code;
mod codex;
mod daemon_fixture;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod openai;
mod setup;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
