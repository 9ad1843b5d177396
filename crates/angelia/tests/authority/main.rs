//! The engine's authority over the real agents: what they do reaches it, and it never allows what a
//! vendor's own mode for editing asks about or refuses.
//!
//! The vendors' verdicts are recorded in `fixtures/permissions`; `cargo nextest run -p angelia
//! --run-ignored all -E 'test(real_record)'` records them anew.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says on which agent"
)]

mod budget;
mod cases;
mod deny_rules;
mod edit_diffs;
mod engine_lab;
mod floor;
#[expect(dead_code, reason = "shared with the tests of the executors")]
#[path = "../../../angelia-executors/tests/isolated_executor/mod.rs"]
mod isolated_executor;
mod protected_paths;
mod record_claude;
mod record_codex;
