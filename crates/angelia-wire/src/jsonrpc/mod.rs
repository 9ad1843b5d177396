//! JSON-RPC: each line of [`ndjson`](crate::ndjson) is one message, which borrows from the line.
//!
//! Some peers put `"jsonrpc":"2.0"` into every message and some into none, so decoding ignores the
//! field and encoding takes a [`VersionField`]. Batches are not supported.
//!
//! ```
//! use angelia_wire::jsonrpc::{RpcMessage, VersionField, decode, encode};
//!
//! let line = encode::request(VersionField::Omit, &1.into(), "turn/start", &["hello"])?;
//! assert_eq!(line, b"{\"id\":1,\"method\":\"turn/start\",\"params\":[\"hello\"]}\n");
//! let Ok(RpcMessage::Request { id, method, .. }) = decode(&line) else { panic!() };
//! assert_eq!((id, &*method), (1.into(), "turn/start"));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! - `message`: the message types.
//! - [`decode`]: parses a line.
//! - [`encode`]: writes a line.
//! - `pending`: our requests that await a response.
//! - [`Peer`]: one side of a connection, built from the parts above.

mod decode;
pub mod encode;
mod message;
mod peer;
mod pending;

pub use self::{
    decode::{DecodeError, decode},
    encode::VersionField,
    message::{ErrorObject, RpcId, RpcMessage},
    peer::{Peer, Received},
    pending::{PendingRequests, ResponseMatch},
};

/// The requested method does not exist.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The request failed on this side.
pub const INTERNAL_ERROR: i64 = -32603;
/// The parameters are invalid.
pub const INVALID_PARAMS: i64 = -32602;
