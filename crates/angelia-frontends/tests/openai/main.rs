//! OpenAI's dialects: what requests mean, and how answers are spelled, to the byte.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod any_body;
mod chat_answers;
mod chat_requests;
mod describe;
mod errors;
mod pieces;
mod responses_answers;
mod responses_requests;
