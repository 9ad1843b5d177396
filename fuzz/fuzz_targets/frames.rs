//! Any bytes, cut anywhere: the frames of the bus agree with their reference.

#![no_main]

#[expect(dead_code, reason = "shared with the property tests, which use all of it")]
#[path = "../../crates/angelia-wire/tests/wire/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::frames::check_bytes(data));
