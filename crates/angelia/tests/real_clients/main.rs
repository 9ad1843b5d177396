//! Unmodified real clients of the model APIs against `angelia serve` on the real Claude Code with a
//! scripted model. Their scripts are in `tests/clients`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/agents.rs"]
mod agents;
mod anthropic;
mod bench;
mod claude_code;
mod codex;
mod openai;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/stage.rs"]
mod stage;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
