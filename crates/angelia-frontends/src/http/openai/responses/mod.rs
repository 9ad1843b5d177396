//! `POST /v1/responses`, and operations on an existing response.
//!
//! - [`decode`]: decodes a body into a [`ModelRequest`](super::super::dialect::ModelRequest) and a
//!   [`ResponsesDialect`]; `items`: the items of its input.
//! - `tool_names`: tools that are more than functions, and the format of their calls.
//! - `encode`: encodes chunks as stream `events`; `object`: encodes the response as one object;
//!   `wire`: their JSON types.
//! - [`ResponseId`], [`ItemId`]: our ids of answers and their items, which contain the turn.
//! - `errors`: the error of a failed response.

mod decode;
mod encode;
mod errors;
mod events;
mod ids;
mod items;
mod object;
mod tool_names;
pub(in crate::http) mod wire;

use super::{
    super::{
        HttpError,
        dialect::{AnswerHeader, CompleteAnswer, Dialect},
    },
    error_body,
};

pub use decode::{decode, references};
pub use encode::ResponsesEncoder;
pub use ids::{ItemId, ResponseId};
pub use object::{encode_recorded, encode_unfinished};

/// The options of a request that affect how its answer is encoded. Most of the request is echoed in
/// the answer.
#[derive(Clone, Debug, Default)]
pub struct ResponsesDialect {
    echo: wire::RequestEcho,
}

impl Dialect for ResponsesDialect {
    type Encoder = ResponsesEncoder;

    fn encoder(&self, header: &AnswerHeader) -> ResponsesEncoder {
        ResponsesEncoder::new(self.echo.clone(), header)
    }

    fn encode_complete(&self, answer: &CompleteAnswer) -> Vec<u8> {
        object::encode_complete(&self.echo, answer)
    }

    fn encode_error(error: &HttpError) -> Vec<u8> {
        error_body(error)
    }

    fn keep_alive() -> &'static [u8] {
        super::KEEP_ALIVE_COMMENT
    }
}
