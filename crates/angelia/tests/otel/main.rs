//! Traces of turns, as a collector receives them: the program is built with the feature `otel`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod collector;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod traces;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
