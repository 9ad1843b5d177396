//! `POST /v1/responses`, and operations on an existing response.
//!
//! - [`decode`]: decodes a body into a [`ModelRequest`](dialect::ModelRequest) and a
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

use axum::http::StatusCode;

use super::{super::dialect, error_body};

pub use decode::{decode, references};
pub use encode::ResponsesEncoder;
pub use ids::{ItemId, ResponseId};
pub use object::{encode_recorded, encode_unfinished};

/// The options of a request that affect how its answer is encoded: most of the request is echoed in
/// it.
#[derive(Clone, Debug, Default)]
pub struct ResponsesDialect {
    echo: wire::RequestEcho,
}

impl dialect::Dialect for ResponsesDialect {
    type Encoder = ResponsesEncoder;

    fn encoder(
        &self,
        _ask: &dialect::ModelRequest,
        begin: &dialect::AnswerHeader,
    ) -> ResponsesEncoder {
        ResponsesEncoder::new(self.echo.clone(), begin)
    }

    fn encode_complete(
        &self,
        _ask: &dialect::ModelRequest,
        whole: &dialect::CompleteAnswer,
    ) -> Vec<u8> {
        object::encode_complete(&self.echo, whole)
    }

    fn encode_error(error: &dialect::DialectError) -> (StatusCode, Vec<u8>) {
        error_body(error)
    }

    fn keep_alive() -> &'static [u8] {
        super::KEEP_ALIVE_COMMENT
    }
}
