//! The JSONL bridge: requests of a host application, one per line, become turns, and the events of
//! those turns become lines again.
//!
//! - [`decode`]: one line → a [`Request`], or why it is none.
//! - [`Event`]: everything a host can be told.
//! - [`Encoder`]: the events of one turn → the events of one run. Pure; [`chunks`] cuts text.
//! - [`Bridge`]: takes requests from [`stdio`](crate::stdio), keeps one run per session, follows the turns.
//! - [`Turns`]: where the turns run; [`EngineTurns`] is this process.
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

/// What the names that hosts give to sessions begin with among the owner's names: the same session
/// is `angelia run -s bridge:NAME`.
pub const NAMES: &str = "bridge:";
