//! Tests of the crate from outside, in one binary.

mod invariants;
mod ndjson;
mod sse;
