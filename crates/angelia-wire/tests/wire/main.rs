//! Tests of the crate from outside, in one binary.

mod frame;
mod invariants;
mod jsonrpc;
mod ndjson;
mod pending;
mod sse;
