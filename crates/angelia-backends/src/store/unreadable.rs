//! The error of a record that this version cannot decode.

/// What could not be read.
#[derive(Debug)]
pub(super) struct Unreadable(pub(super) String);

impl Unreadable {
    /// Returns the message for people; `place` is the file or the database.
    pub(super) fn describe(&self, place: impl std::fmt::Display) -> String {
        format!(
            "{place} holds a record that this version of angelia cannot read ({}); \
             if a newer version wrote it, use that one",
            self.0
        )
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}
