//! Anthropic's Messages API: decoding of requests and encoding of answers. Pure: no server, no
//! agent.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "literals of JSON read better without a sign in front"
)]

mod content;
mod decode;
mod encode;
mod errors;
mod invariants;
mod properties;
mod tools;
