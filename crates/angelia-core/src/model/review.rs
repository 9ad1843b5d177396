//! Reviews: after some turns of a session, a model rereads the conversation in a hidden session of its own,
//! and notes what is worth remembering.

use super::SessionSpec;

/// Code of the notice for a note that was written or forgotten.
pub const MEMORY_CHANGED_NOTICE: &str = "memory_changed";

/// Code of the notice about a review, in the turn that follows it.
pub const REVIEWED_NOTICE: &str = "reviewed";

/// When sessions of a specification are reviewed, and by which model.
#[derive(Clone, Debug)]
pub struct ReviewPlan {
    /// After this many turns …
    pub turns: u32,
    /// … or this many tool calls since the last review.
    pub tool_calls: u32,
    /// Maximum number of requests that a review may send.
    pub iterations: u32,
    /// The reviewer; `None` for the session's own model, whose provider has the conversation cached.
    pub reviewer: Option<Box<SessionSpec>>,
}
