//! The app-server's spellings, in both directions, and nowhere else.
//!
//! - [`message`]: one line of its output: a response, a request or a notification, and whose it is.
//! - [`outgoing`]: every request, notification and answer we ever write.
//! - [`opened`]: its responses, as far as we read them.
//! - `item`, `notification`, `asked`: what the translation looks into.
//! - `answer`: the results its requests want.
//! - [`history`]: a carried history in the shape the model's API has.
//! - [`used`]: what of all this must be in the schema of a version we can drive.

pub(crate) mod answer;
pub(crate) mod asked;
pub mod history;
pub(crate) mod item;
pub mod message;
pub(crate) mod notification;
pub mod opened;
pub mod outgoing;
pub mod used;
