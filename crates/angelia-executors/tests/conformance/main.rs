//! The conformance suite on every executor: the demo agent, the oldest and newest real Claude Code,
//! the real Codex and a real ACP agent, against the scripted model. Tests of real programs are in
//! modules named `real_…`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acp;
mod changed_wire;
mod claude;
mod codex;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "../isolated_executor/mod.rs"]
mod isolated_executor;
mod long_tools;
mod native;
mod parrot;
#[path = "../parrot_program/mod.rs"]
mod parrot_program;
mod recorded;
mod scripted;

/// A new executor needs a fixture here.
#[test]
fn every_executor_is_in_the_suite() {
    let suite = ["acp", "claude", "codex", "native", "parrot"];
    for registration in angelia_executors::EXECUTORS {
        assert!(suite.contains(&registration.name), "{registration:?}");
    }
}
