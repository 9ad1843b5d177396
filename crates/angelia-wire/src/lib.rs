//! Bytes to frames and back, for every protocol Angelia speaks: this crate knows bytes, not meaning.
//!
//! Nothing here does I/O. A reader fills a buffer it is lent, then takes out whatever is complete:
//!
//! - [`ndjson`]: one JSON value per line, as the agents and the bridge speak it.
//! - [`jsonrpc`]: requests, answers and notifications, each on such a line.
//! - [`frame`]: frames with their length in front, as the bus speaks them.
//! - [`sse`]: server-sent events, as the HTTP interfaces speak them.
//! - [`limits`]: how much a peer can make us hold in memory.
//!
//! Two rules hold throughout. Wherever a stream is cut into reads, the frames are the same; and
//! nothing a peer sends is an error that ends the stream: what is too long is skipped and reported.

mod lines;

pub mod frame;
pub mod jsonrpc;
pub mod limits;
pub mod ndjson;
pub mod sse;
