//! The file changes of a tool call, as stated by the agent. They are shown to people as a diff; the
//! permission rules never use them.

use std::{path::PathBuf, sync::Arc};

/// A change to one file. A relative path is relative to the call's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    pub path: PathBuf,
    pub change: FileChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// Replaces the content of the file.
    Write(Arc<str>),
    /// Replaces text in the file.
    Replace(TextReplacement),
    /// The hunks of a unified diff, made by the agent.
    Patch {
        hunks: Arc<str>,
        moved_to: Option<PathBuf>,
    },
    /// Changes a cell of a notebook.
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
    /// A new cell after the named one.
    Insert(Arc<str>),
    Delete,
}
