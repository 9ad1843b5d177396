//! Tests of the crate's public API, in one binary.

mod frame;
mod invariants;
mod jsonrpc;
mod ndjson;
mod peer;
mod pending;
mod sse;
