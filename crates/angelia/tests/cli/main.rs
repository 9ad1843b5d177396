//! The program as people and scripts use it: `angelia`, its commands and its daemon, in an isolated
//! home, with a cleared environment, offline.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod agent_processes;
mod agents;
mod audit;
mod bad_agent;
mod bad_disk;
mod bad_input;
mod bad_records;
mod checklist;
mod clocks;
mod daemon;
mod demo;
mod exits;
mod http;
mod keys;
mod killed;
mod limits;
mod machine;
mod once;
mod quota;
mod session_files;
mod sessions;
mod settings;
mod stopping;
mod terminal;
mod transcript;
mod turns;
mod two_at_once;
