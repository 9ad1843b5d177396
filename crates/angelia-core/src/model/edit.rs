//! What a tool call changes in files, as the agent states it. People decide by the diff that is made
//! of it; the permission rules never see it.

use std::{path::PathBuf, sync::Arc};

/// A change of one file. A relative path is relative to the call's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    pub path: PathBuf,
    pub change: FileChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// The file gets this content.
    Write(Arc<str>),
    /// Text is replaced where it stands in the file.
    Replace(TextReplacement),
    /// The hunks of a unified diff, made by the agent.
    Patch {
        hunks: Arc<str>,
        moved_to: Option<PathBuf>,
    },
    /// A cell of a notebook changes.
    Cell {
        id: Option<Arc<str>>,
        change: CellChange,
    },
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextReplacement {
    pub old: Arc<str>,
    pub new: Arc<str>,
    /// Replace every occurrence, not only the first.
    pub all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellChange {
    Replace(Arc<str>),
    /// A new cell after the one that is named.
    Insert(Arc<str>),
    Delete,
}
