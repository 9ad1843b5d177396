//! A change to a note, with the previous text so that it can be undone.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::NoteId;

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteWriter {
    /// An agent, with the `memory` tool.
    Agent,
    /// A review of a session.
    Review,
    /// The owner, with a command.
    Owner,
}

impl NoteWriter {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Review => "review",
            Self::Owner => "owner",
        }
    }
}

/// A change, as its file in `.changes` stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteChange {
    /// Begins with the time, so that ids sort in the order of the changes.
    pub id: Uuid,
    /// `PROFILE/PLACE/KEY`.
    note: String,
    by: String,
    /// `None` if there was no note.
    pub before: Option<String>,
    /// `None` if the note was forgotten.
    pub after: Option<String>,
}

impl NoteChange {
    pub(super) fn new(
        note: &NoteId,
        by: NoteWriter,
        before: Option<String>,
        after: Option<String>,
    ) -> Self {
        Self {
            id: Uuid::now_v7(),
            note: note.to_string(),
            by: by.as_str().to_owned(),
            before,
            after,
        }
    }

    /// Returns the note; `None` if a later version wrote a name that this version does not know.
    pub fn note(&self) -> Option<NoteId> {
        NoteId::parse(&self.note)
    }

    pub fn by(&self) -> &str {
        &self.by
    }

    /// Returns the end of the id, by which `angelia memory undo` finds the change. The beginning is
    /// the time, which changes of the same minute share.
    pub fn short_id(&self) -> String {
        let id = self.id.simple().to_string();
        id[id.len() - 8..].to_owned()
    }
}
