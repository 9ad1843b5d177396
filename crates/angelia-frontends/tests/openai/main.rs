//! OpenAI's dialects: decoding of requests, and the exact bytes of answers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod any_body;
mod chat_answers;
mod chat_requests;
mod describe;
mod errors;
mod responses_answers;
mod responses_requests;
mod sample_answers;
