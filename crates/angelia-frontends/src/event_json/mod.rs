//! The public JSON form of an event: one object, the same in `run --json`, over HTTP and in
//! exports.
//!
//! - [`write_event`]: serializes the model directly to bytes.
//! - [`read_event`]: parses bytes into the model, for our own clients of the daemon. Code that
//!   shows events therefore handles only the model, wherever the events come from.
//! - [`time`]: the format of timestamps, also used by other modules.

mod decode;
mod encode;
mod parts;
pub mod time;

pub use decode::{BadEvent, read_event};
pub use encode::{event_type, write_event};
pub(crate) use parts::ceil_seconds;
pub use parts::{FailureJson, QuestionJson, UsageJson};

/// An event received from a daemon, as [`read_event`] returns it.
pub type ApiEvent = angelia_core::model::TurnEvent;
