//! The public JSON form of an event: one object, the same in `run --json`, over HTTP and in
//! exports.
//!
//! - `line`: [`write_event`] turns the model into bytes, and [`read_event`] turns bytes into the
//!   model, for our own clients of the daemon. Code that shows events therefore handles only the
//!   model, wherever the events come from.
//! - `kinds`: the fields of each type of event; `parts`: the objects inside them that are also used
//!   elsewhere.
//! - [`time`]: the timestamp format, which other modules use too.

mod kinds;
mod line;
mod parts;
pub mod time;

pub use line::{BadEvent, event_type, read_event, write_event};
pub(crate) use parts::ceil_seconds;
pub use parts::{FailureJson, QuestionJson, UsageJson};

/// An event received from a daemon, as [`read_event`] returns it.
pub type ApiEvent = angelia_core::model::TurnEvent;
