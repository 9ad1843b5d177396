//! The JSONL bridge: a host application sends requests, one per line. They become turns, whose
//! events are written back as lines.
//!
//! - [`decode`]: parses one line into a [`Request`], or returns the reason why it cannot.
//! - [`Event`]: every event that the bridge writes.
//! - [`RunEncoder`]: encodes the events of one turn as the events of one run. Pure; [`chunks`]
//!   splits text.
//! - [`Bridge`]: reads requests from [`stdio`](crate::stdio), keeps one run per session and follows
//!   its turn.
//! - `begin`: finds the session of a run and submits its turn to a
//!   [`TurnService`](crate::turn_service::TurnService).
//! - [`BridgeError`]: why a request was not carried out.
//! - [`schema`]: requests and events as a JSON schema.

mod active_runs;
mod begin;
mod chunks;
mod encode;
mod error;
mod event;
mod request;
mod run;
mod run_spec;
mod schema;
mod serve;
#[cfg(test)]
mod tests;
mod transcript;

pub use encode::RunEncoder;
pub use error::BridgeError;
pub use event::{BridgeEvent, RunInfo};
pub use request::{BadRequest, BridgeErrorCode, BridgeRequest, RunRequest, decode};
pub use run_spec::{DeltaFlags, DeltaMode, RunDefaults, RunSpec};
pub use schema::schema;
pub use serve::{Bridge, RunResult};

/// The prefix of a host's session names among the owner's names: `angelia run -s bridge:NAME`
/// continues the same session.
const SESSION_NAME_PREFIX: &str = "bridge:";
