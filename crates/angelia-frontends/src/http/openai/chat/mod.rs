//! `POST /v1/chat/completions`.
//!
//! - [`decode`]: decodes a body into a [`ModelRequest`](super::super::dialect::ModelRequest) and a
//!   [`ChatDialect`].
//! - `encode`: encodes an answer as stream chunks or one object; `wire`: the JSON types of both.

mod decode;
mod encode;
pub(in crate::http) mod wire;

use super::{
    super::{
        HttpError,
        dialect::{AnswerHeader, CompleteAnswer, Dialect},
    },
    error_body,
};

pub use decode::decode;
pub use encode::ChatEncoder;

/// The options of a request that affect how its answer is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChatDialect {
    /// Whether the stream ends with a chunk that contains the usage.
    pub include_usage: bool,
    /// Whether the request used `functions`, the predecessor of `tools`. If so, the answer must use
    /// it too.
    pub legacy: bool,
}

impl Dialect for ChatDialect {
    type Encoder = ChatEncoder;

    fn encoder(&self, header: &AnswerHeader) -> ChatEncoder {
        ChatEncoder::new(*self, header)
    }

    fn encode_complete(&self, answer: &CompleteAnswer) -> Vec<u8> {
        encode::encode_complete(*self, answer)
    }

    fn encode_error(error: &HttpError) -> Vec<u8> {
        error_body(error)
    }

    fn keep_alive() -> &'static [u8] {
        super::KEEP_ALIVE_COMMENT
    }
}
