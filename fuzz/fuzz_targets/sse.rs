//! Feeds any bytes, split anywhere, to the decoder of server-sent events: it agrees with its
//! reference.

#![no_main]

#[expect(dead_code, reason = "shared with the property tests, which use all of it")]
#[path = "../../crates/angelia-wire/tests/wire/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::sse::check_bytes(data));
