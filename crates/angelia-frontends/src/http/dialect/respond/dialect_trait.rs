//! The traits that a dialect implements to encode answers and errors. Implementations are pure: all
//! decisions are made elsewhere.
//!
//! Handlers are thin: the dialect's own `decode` turns the body into a `ModelRequest` and a value
//! that implements [`Dialect`], and `dialect::serve` does the rest.

use crate::http::{
    HttpError,
    dialect::{AnswerChunk, AnswerHeader, CompleteAnswer},
};

/// Encodes the answer to one request. The value holds the options of the request that affect only
/// the encoding, for example whether a stream ends with its usage.
pub trait Dialect: Send + Sync + 'static {
    /// The state of one stream.
    type Encoder: AnswerEncoder;

    /// Creates the encoder of a stream. It then receives every chunk, `Start` first.
    fn encoder(&self, header: &AnswerHeader) -> Self::Encoder;

    /// Returns the JSON body of an answer that is not streamed.
    fn encode_complete(&self, answer: &CompleteAnswer) -> Vec<u8>;

    /// Returns the JSON body of an error. The status and headers (`retry-after`, `www-authenticate`)
    /// are the same in every dialect and are set elsewhere.
    fn encode_error(error: &HttpError) -> Vec<u8>;

    /// Returns a complete frame without content, which is sent while the turn is idle.
    fn keep_alive() -> &'static [u8];
}

/// Encodes the chunks of one stream. `encode` appends complete frames to `out`, or none if a chunk
/// has no event in this dialect.
pub trait AnswerEncoder: Send + 'static {
    fn encode(&mut self, chunk: &AnswerChunk, out: &mut Vec<u8>);
}
