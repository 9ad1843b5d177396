//! Chooses the turn that answers a request: the turn of the request that it repeats, a turn that
//! waits for its tool results, or a new turn of the session that has its history.
//!
//! - `attach`: the decision, and the submission of the new input.
//! - `repeats`: recognises a repeated request, so that it runs at most once.
//! - `find`: finds the session by the history; [`ConversationHasher`]: the hash of a history.
//! - [`RecentRequests`]: remembers recent requests for all this.

mod attach;
mod conversation_hash;
mod find;
mod recent_requests;
mod repeats;

pub(super) use attach::{AttachedTurn, attach, relaunch};
pub(super) use conversation_hash::{ConversationHasher, HashBytes};
pub use recent_requests::RecentRequests;
