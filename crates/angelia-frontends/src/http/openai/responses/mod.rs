//! `POST /v1/responses`, and what can be done with a response afterwards.
//!
//! - [`decode`]: a body becomes an [`Ask`](dialect::Ask) and a [`Responses`]; `items`: the items of
//!   its input.
//! - `names`: tools that are more than functions, and how their calls are spelled.
//! - `encode`: pieces to a stream of `events`; `object`: the response as one object; `wire`: their
//!   shapes.
//! - [`ResponseId`], [`ItemId`]: our names for answers and their items, from which the turn can be
//!   read.
//! - `errors`: how a response says that it failed.

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

/// What the caller asked of the spelling of its answer: most of a request comes back in it.
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
