//! Feeds any bytes, split anywhere, to the decoder of bus frames: it agrees with its reference.

#![no_main]

#[expect(dead_code, reason = "shared with the property tests, which use all of it")]
#[path = "../../crates/angelia-wire/tests/wire/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::frames::check_bytes(data));
