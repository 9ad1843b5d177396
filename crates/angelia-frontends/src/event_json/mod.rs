//! An event as the outside sees it: one JSON object, the same in `run --json`, over HTTP and in
//! exports.
//!
//! - [`write_event`]: model to bytes, without anything in between.
//! - [`read_event`]: bytes to model, for our own clients of the daemon; whoever shows events needs
//!   to know only the model, wherever they come from.
//! - [`time`]: how points in time are written, also by others.

mod decode;
mod encode;
mod parts;
pub mod time;

pub use decode::{BadEvent, read_event};
pub use encode::{event_type, write_event};
pub(crate) use parts::whole_seconds;
pub use parts::{FailureJson, QuestionJson, UsageJson};

/// An event that came from a daemon; what [`read_event`] makes is what the engine had.
pub type ApiEvent = angelia_core::model::TurnEvent;
