//! The daemon under hostile clients: requests generated from its own schema, and thousands of
//! requests that are aborted, repeated or never finished, with agents or the daemon that get killed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the numbers are for those who look")]

#[path = "../cli/agent_processes.rs"]
mod agent_processes;
mod insistent_client;
mod kills;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod native_faults;
mod native_turns;
mod random_client;
mod raw_client;
mod resource_usage;
mod schema;
mod seeded_random;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
mod under_load;
