//! Feeds any text to the repair of a tool's arguments: it gives an object or refuses, and never makes
//! one up.

#![no_main]

#[expect(dead_code, reason = "shared with the property tests, which use all of it")]
#[path = "../../crates/angelia-executors/tests/native/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|text: &str| invariants::check_arguments(text));
