//! Framing for every protocol Angelia speaks: bytes to frames and back. This crate knows bytes, not
//! their meaning.
//!
//! Nothing here does I/O. A reader fills a buffer that it borrows, then takes the complete frames:
//!
//! - [`ndjson`]: one JSON value per line, for agents and the bridge.
//! - [`jsonrpc`]: requests, responses and notifications, one per line.
//! - [`frame`]: length-prefixed frames, for the bus.
//! - [`sse`]: server-sent events, for the HTTP interfaces.
//! - [`near_json`]: JSON of callers whose JSON library is not strict.
//! - [`limits`]: bounds on the memory that a peer can make us hold.
//!
//! Two rules hold throughout. However a stream is cut into reads, the frames are the same; and no
//! input is an error that ends the stream: a frame that is too long is skipped and reported.

mod lines;

pub mod frame;
pub mod jsonrpc;
pub mod limits;
pub mod ndjson;
pub mod near_json;
pub mod sse;
