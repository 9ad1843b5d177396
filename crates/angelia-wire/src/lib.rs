//! Framing for every protocol that Angelia speaks: bytes to frames and back. This crate does not
//! interpret the frames.
//!
//! Nothing here does I/O. A reader borrows a buffer, fills it, and then takes the complete frames:
//!
//! - [`ndjson`]: one JSON value per line, for agents and the bridge.
//! - [`jsonrpc`]: requests, responses and notifications, one per line.
//! - [`frame`]: length-prefixed frames, for the bus.
//! - [`sse`]: server-sent events, for the HTTP interfaces.
//! - [`near_json`]: JSON from callers whose JSON library is not strict.
//! - [`limits`]: bounds on the memory that a peer can make us hold.
//!
//! Two rules hold throughout. The frames do not depend on how the stream is split into reads. And
//! no input ends the stream with an error: an oversized frame is skipped and reported.

mod lines;

pub mod frame;
pub mod jsonrpc;
pub mod limits;
pub mod ndjson;
pub mod near_json;
pub mod sse;
