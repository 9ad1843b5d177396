//! `angelia run` with `executor: acp`: real agents that work offline against scripted models on
//! loopback, and `angelia acp` itself as the agent.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod acp_fixture;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/agent_processes.rs"]
mod agent_processes;
#[path = "../cli/lost_transcripts.rs"]
mod lost_transcripts;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod ourselves;
mod real_claude_agent_acp;
mod real_gemini;
mod real_opencode;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
