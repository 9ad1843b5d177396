//! JSON-RPC messages: one line of [`ndjson`](crate::ndjson) is one message, borrowed from it.
//!
//! Some peers write `"jsonrpc":"2.0"` into every message and some write it into none, so reading
//! does not look at it and writing is told by a [`Dialect`]. There are no batches.
//!
//! ```
//! use angelia_wire::jsonrpc::{Dialect, Incoming, decode, encode};
//!
//! let line = encode::request(Dialect::Bare, &1.into(), "turn/start", &["hello"])?;
//! assert_eq!(line, b"{\"id\":1,\"method\":\"turn/start\",\"params\":[\"hello\"]}\n");
//! let Ok(Incoming::Request { id, method, .. }) = decode(&line) else { panic!() };
//! assert_eq!((id, &*method), (1.into(), "turn/start"));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! - `message`: what a message is; [`decode`]: a line becomes one.
//! - [`encode`]: messages as lines.
//! - `pending`: who waits for which answer.

mod decode;
pub mod encode;
mod message;
mod pending;

pub use self::{
    decode::{DecodeError, decode},
    encode::Dialect,
    message::{ErrorObject, Id, Incoming},
    pending::{Answered, Pending},
};

/// The peer asked for something that does not exist here.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Something went wrong on this side.
pub const INTERNAL_ERROR: i64 = -32603;
/// The parameters make no sense.
pub const INVALID_PARAMS: i64 = -32602;
