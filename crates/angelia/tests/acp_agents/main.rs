//! `angelia run` with `executor: acp`: real agents that work offline against scripted models on
//! loopback, and `angelia acp` itself as the agent.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/agents.rs"]
mod agents;
mod lab;
mod ourselves;
mod real_claude_agent_acp;
mod real_gemini;
mod real_opencode;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/stage.rs"]
mod stage;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
