//! Any frame of a client of the bus: malformed, or a request; and what a message says is passed on
//! as it was said, with a sender that is true.

#![no_main]

#[path = "../../crates/angelia-frontends/tests/bus/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::check(data));
