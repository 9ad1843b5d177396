//! The JSONL bridge: a host application sends requests, one per line; they become turns, and the
//! events of those turns are written back as lines.
//!
//! - [`decode`]: parses one line into a [`Request`], or says why it cannot.
//! - [`Event`]: every event that the bridge writes.
//! - [`RunEncoder`]: encodes the events of one turn as the events of one run. Pure; [`chunks`]
//!   splits text.
//! - [`Bridge`]: reads requests from [`stdio`](crate::stdio), keeps one run per session and follows
//!   its turn.
//! - [`TurnBackend`]: runs the turns; [`EngineTurns`] runs them in this process.
//! - [`schema`]: requests and events as a JSON schema.

mod active;
mod ask;
mod chunks;
mod encode;
mod engine;
mod event;
mod messages;
mod request;
mod run;
mod schema;
mod serve;
#[cfg(test)]
mod tests;
mod turns;

pub use ask::{Ask, Defaults, Fit, Streaming, Streams};
pub use encode::Encoder;
pub use engine::{EngineTurns, Overrides, stored_key};
pub use event::{About, Event};
pub use request::{BadRequest, Code, Request, RunRequest, decode};
pub use schema::schema;
pub use serve::{Bridge, Ending};
pub use turns::{Batch, Begun, Events, Refused, Turns};

/// The prefix of a host's session names among the owner's names: `angelia run -s bridge:NAME`
/// continues the same session.
pub const NAMES: &str = "bridge:";
