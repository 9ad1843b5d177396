//! When files were changed, for schedules that watch them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

pub trait FileTimes: Send + Sync + 'static {
    /// Returns the file, or all files below the folder, by their path relative to it; nothing if
    /// there is no such file. Blocks. `Err` says why that is not possible.
    fn read(&self, path: &Path) -> Result<FileStamps, String>;
}

/// Files by their path: relative to a folder, or the name of the file itself.
pub type FileStamps = BTreeMap<PathBuf, FileStamp>;

/// Differs whenever a file has been written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub modified_at: Timestamp,
    pub size: u64,
    /// The number of the file on its disk: a file that replaces another has its own.
    pub inode: u64,
}
