//! Writes an answer as an HTTP response in the caller's dialect.
//!
//! - [`Dialect`], [`AnswerEncoder`]: the traits that a dialect implements.
//! - `response`: chooses between a stream, one object and an error; `stream`: the frames of a stream.

mod dialect_trait;
mod response;
mod stream;

pub use dialect_trait::{AnswerEncoder, Dialect};
pub(super) use response::respond;
pub(in crate::http) use response::{error_response, json_response};
