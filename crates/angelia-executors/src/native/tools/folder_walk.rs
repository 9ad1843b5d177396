//! Walks a folder like ripgrep. Leaves out what `.gitignore` excludes, the internal files of
//! repositories, and private files, which only a person may show.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use angelia_core::permission::PrivateFiles;
use ignore::{DirEntry, WalkBuilder};
use tokio_util::sync::CancellationToken;

use super::workspace::is_of_kernel;

/// A search that takes longer stops with what it has found.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(30);

const REPOSITORY_FOLDERS: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEnd {
    Complete,
    /// The caller has seen enough entries.
    Enough,
    Cancelled,
    TooLong,
}

/// Calls `visit` for everything below a real path, sorted by path, until it returns `false`.
pub(super) fn walk_folder(
    root: &Path,
    private: &PrivateFiles,
    cancel: &CancellationToken,
    mut visit: impl FnMut(&DirEntry) -> bool,
) -> WalkEnd {
    let began = Instant::now();
    // A private root was allowed by a person, and so was everything below it.
    let guard = (!private.contains(root)).then(|| private.clone());
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| {
            let is_repository = entry.depth() > 0
                && REPOSITORY_FOLDERS.iter().any(|name| entry.file_name() == *name);
            let is_left_out = is_repository || is_of_kernel(entry.path());
            !is_left_out && !guard.as_ref().is_some_and(|guard| guard.contains(entry.path()))
        })
        .build();
    // Entries that cannot be read are skipped, as in ripgrep.
    for entry in walk.flatten() {
        if cancel.is_cancelled() {
            return WalkEnd::Cancelled;
        }
        if began.elapsed() > MAX_DURATION {
            return WalkEnd::TooLong;
        }
        if !visit(&entry) {
            return WalkEnd::Enough;
        }
    }
    WalkEnd::Complete
}

/// Returns whether an entry is a regular file.
pub(super) fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}

/// Returns the path of an entry below the root of its walk, or the name of a root that is a file.
pub(super) fn path_below(root: &Path, entry: &DirEntry) -> PathBuf {
    match entry.path().strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => below.to_owned(),
        _ => entry.file_name().into(),
    }
}
