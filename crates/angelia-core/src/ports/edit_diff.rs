//! Shows the changes that edits would make.

use std::{path::PathBuf, sync::Arc};

use super::BoxFuture;
use crate::model::FileEdit;

/// Compares edits with the files as they are now.
pub trait EditDiffer: Send + Sync + 'static {
    /// Returns a unified diff of bounded length; a line that begins with `\` names what the diff
    /// cannot show. `None`: there is nothing to compare. Relative paths are relative to `cwd`, and
    /// files below `cwd` are shown with relative paths.
    fn diff(&self, edits: Vec<FileEdit>, cwd: PathBuf) -> BoxFuture<'_, Option<Arc<str>>>;
}
