//! Diffs of edits that are allowed without asking a person, kept from the moment a call is allowed
//! until its result arrives. If a person decides an edit, the approval contains the diff.

use std::{collections::HashMap, sync::Arc};

use crate::model::{ToolId, ToolResult};

/// More calls than an agent ever has open at once.
const MAX_OPEN_CALLS: usize = 256;

/// Maximum size of all diffs in one segment of a turn, because they are stored with the turn.
const MAX_DIFF_BYTES: usize = 4 << 20;

/// Replaces the diff of an edit when there is no room for it.
const LEFT_OUT: &str = "\\ this diff is left out: the diffs of this turn take more than 4 MiB\n";

#[derive(Debug, Default)]
pub(super) struct UnaskedEdits {
    /// By call. `None` if no diff is shown, because a person decides the call or it changes
    /// nothing.
    diffs: HashMap<ToolId, Option<Arc<str>>>,
    used_bytes: usize,
}

impl UnaskedEdits {
    /// Returns whether a diff must be made for this call. An agent may report a call twice.
    pub(super) fn is_new(&self, call: &ToolId) -> bool {
        !self.diffs.contains_key(call) && self.diffs.len() < MAX_OPEN_CALLS
    }

    pub(super) fn has_room(&self) -> bool {
        self.used_bytes < MAX_DIFF_BYTES
    }

    /// Keeps the diff of a call that was allowed without asking.
    pub(super) fn insert(&mut self, call: ToolId, diff: Option<Arc<str>>) {
        self.used_bytes += diff.as_ref().map_or(0, |diff| diff.len());
        self.diffs.insert(call, diff);
    }

    /// Records that there is no room for the diff of an edit.
    pub(super) fn leave_out(&mut self, call: ToolId) {
        self.diffs.insert(call, Some(LEFT_OUT.into()));
    }

    /// Drops the diff of a call that a person decides.
    pub(super) fn set_asked(&mut self, call: ToolId) {
        self.diffs.insert(call, None);
    }

    /// Adds the diff to the result of its call, unless the call failed and thus changed nothing.
    pub(super) fn add_to(&mut self, result: &mut ToolResult) {
        let diff = self.diffs.remove(&result.id).flatten();
        result.diff = diff.filter(|_| result.ok);
    }
}
