//! Feeds any client frame to the bus's decoder: it returns a request or "malformed". A message is
//! passed on unchanged, with its true sender.

#![no_main]

#[path = "../../crates/angelia-frontends/tests/bus/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::check(data));
