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
mod names;
mod object;
pub(in crate::http) mod wire;

use axum::http::StatusCode;

use super::{super::dialect, error_body};

pub use decode::{decode, references};
pub use encode::EventEncoder;
pub use ids::{ItemId, ResponseId};
pub use object::{recorded, unfinished};

/// The options of a request that affect how its answer is encoded: most of the request is echoed in
/// it.
#[derive(Clone, Debug, Default)]
pub struct Responses {
    echo: wire::Echo,
}

impl dialect::Dialect for Responses {
    type Encoder = EventEncoder;

    fn encoder(&self, _ask: &dialect::Ask, begin: &dialect::Begin) -> EventEncoder {
        EventEncoder::new(self.echo.clone(), begin)
    }

    fn whole(&self, _ask: &dialect::Ask, whole: &dialect::Whole) -> Vec<u8> {
        object::whole(&self.echo, whole)
    }

    fn error(error: &dialect::DialectError) -> (StatusCode, Vec<u8>) {
        error_body(error)
    }

    fn keep_alive() -> &'static [u8] {
        super::KEEP_ALIVE
    }
}
