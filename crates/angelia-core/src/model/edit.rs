//! The changes that a tool call makes in files, as the agent states them. People decide by a diff
//! made from them; the permission rules never use them.

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
    /// Text in the file is replaced.
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
