//! Any body of a request to the Messages API: a reason to refuse it, or a request.

#![no_main]

#[path = "../../crates/angelia-frontends/tests/anthropic/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::check(data));
