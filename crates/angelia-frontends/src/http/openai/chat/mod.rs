//! `POST /v1/chat/completions`.
//!
//! - [`decode`]: decodes a body into a [`ModelRequest`](super::super::dialect::ModelRequest) and a
//!   [`ChatDialect`].
//! - `encode`: encodes an answer as stream chunks or one object; `wire`: the JSON types of both.

mod decode;
mod encode;
pub(in crate::http) mod wire;

use axum::http::StatusCode;

use super::{super::dialect, error_body};

pub use decode::decode;
pub use encode::ChunkEncoder;

/// The options of a request that affect how its answer is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// The stream ends with a chunk that carries the usage.
    pub include_usage: bool,
    /// The request used `functions`, the predecessor of `tools`; so must the answer.
    pub legacy: bool,
}

impl dialect::Dialect for Chat {
    type Encoder = ChunkEncoder;

    fn encoder(&self, _ask: &dialect::Ask, begin: &dialect::Begin) -> ChunkEncoder {
        ChunkEncoder::new(*self, begin)
    }

    fn whole(&self, _ask: &dialect::Ask, whole: &dialect::Whole) -> Vec<u8> {
        encode::whole(*self, whole)
    }

    fn error(error: &dialect::DialectError) -> (StatusCode, Vec<u8>) {
        error_body(error)
    }

    fn keep_alive() -> &'static [u8] {
        super::KEEP_ALIVE
    }
}
