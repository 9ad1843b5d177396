//! Shows the changes that edits would make.

use std::{path::PathBuf, sync::Arc};

use super::BoxFuture;
use crate::model::FileEdit;

/// Compares edits with the current files.
pub trait EditDiffer: Send + Sync + 'static {
    /// Returns a unified diff of bounded length. A line that begins with `\` names something that
    /// the diff cannot show. `None` if there is nothing to compare. Relative paths are relative to
    /// `cwd`, and files below `cwd` are shown with relative paths.
    fn diff(&self, edits: Vec<FileEdit>, cwd: PathBuf) -> BoxFuture<'_, Option<Arc<str>>>;
}
