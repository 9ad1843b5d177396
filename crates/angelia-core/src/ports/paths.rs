//! Resolves paths to the real paths on this machine.

use std::path::PathBuf;

use super::BoxFuture;

/// Resolves paths, so that symbolic links and `..` cannot hide what a tool call touches.
pub trait PathResolver: Send + Sync + 'static {
    fn places(&self) -> &KnownPlaces;

    /// Returns the real path of each absolute path, in the same order. Follows links, even if their
    /// target does not exist. Components that do not exist keep their names.
    fn resolve(&self, paths: Vec<PathBuf>) -> BoxFuture<'_, Vec<PathBuf>>;
}

/// Folders that the permission rules refer to, as real paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPlaces {
    pub user_home: PathBuf,
    /// `$ANGELIA_HOME`
    pub angelia_home: PathBuf,
    /// Names of files and folders that configure agents, wherever they are located.
    pub agent_files: Vec<&'static str>,
}
