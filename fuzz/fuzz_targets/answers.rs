//! Feeds any bytes, in reads of any size, to the decoders of the three providers' APIs: they agree
//! with themselves, and lose no text.

#![no_main]

#[expect(dead_code, reason = "shared with the property tests, which use all of it")]
#[path = "../../crates/angelia-executors/tests/native/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    invariants::check_answer(bytes, &[usize::from(size) + 1]);
});
