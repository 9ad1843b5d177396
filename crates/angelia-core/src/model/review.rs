//! Reviews: after some turns of a session, a model looks at the conversation once more, in a session of its
//! own that nobody sees, and notes what is worth remembering.

use super::SessionSpec;

/// Code of the notice about a note that was written or forgotten.
pub const MEMORY_CHANGED_NOTICE: &str = "memory_changed";

/// Code of the notice about a review, in the turn that follows it.
pub const REVIEWED_NOTICE: &str = "reviewed";

/// When the sessions of a specification are reviewed, and by whom.
#[derive(Clone, Debug)]
pub struct ReviewPlan {
    /// After this many turns …
    pub turns: u32,
    /// … or this many tool calls since the last review.
    pub tool_calls: u32,
    /// The number of requests that a review may send.
    pub iterations: u32,
    /// The reviewer; `None`: the session's own model, whose provider has the conversation in its cache.
    pub reviewer: Option<Box<SessionSpec>>,
}
