//! Feeds any bytes to the Messages API's decoder: it returns a request or an error.

#![no_main]

#[path = "../../crates/angelia-frontends/tests/anthropic/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::check(data));
