//! `angelia bridge` as host applications use it: JSON on stdin and stdout, in an isolated home,
//! offline.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/agent_processes.rs"]
mod agent_processes;
mod approvals;
mod bad_input;
mod checklist;
mod daemon;
mod ending;
mod examples;
mod flags;
mod host;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod much;
mod once;
mod order;
mod own_model;
mod owners;
mod real_claude;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
