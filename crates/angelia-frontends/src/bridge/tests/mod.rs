//! Tests of the pure parts: decoding a line, and encoding the events of a turn.

mod encoding;
mod requests;
