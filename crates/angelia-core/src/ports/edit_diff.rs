//! Shows what edits would change.

use std::{path::PathBuf, sync::Arc};

use super::BoxFuture;
use crate::model::FileEdit;

/// Compares edits with the files as they are now.
pub trait EditDiffer: Send + Sync + 'static {
    /// Returns a unified diff of bounded length; a text about what it cannot show begins with `\`.
    /// `None`: there is nothing to compare. Relative paths are relative to `cwd`, and the paths of
    /// files below it are shown relative to it.
    fn diff(&self, edits: Vec<FileEdit>, cwd: PathBuf) -> BoxFuture<'_, Option<Arc<str>>>;
}
