//! Our own loop against the scripted model, in all three APIs: every fault that a server can make, and
//! what must come of it. Nothing is lost, and nothing is run twice.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod batches;
mod chain_lab;
mod clocks;
mod compaction;
mod compaction_failures;
mod compaction_lab;
mod dropped_streams;
mod dumps;
mod endings;
mod fallback;
mod images;
mod interrupts;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "../isolated_executor/mod.rs"]
mod isolated_executor;
mod key_pools;
mod keys;
mod loop_lab;
mod mcp_faults;
mod mcp_lab;
mod mcp_logins;
mod mcp_tools;
mod memory;
mod paused_lab;
mod prefixes;
mod reasoning;
mod redaction;
mod refusals;
mod repairs;
mod sanitisation;
mod skills;
mod steering;
mod usage;
