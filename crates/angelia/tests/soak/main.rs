//! The daemon under hostile clients: requests generated from its own schema, and thousands of
//! requests that are aborted, repeated or never finished, with agents that get killed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the numbers are for those who look")]

mod client;
mod load;
mod machine;
mod schema;
mod seeded;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/stage.rs"]
mod stage;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
mod under_load;
