//! Change stamps of files, for schedules that watch files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

pub trait FileTimes: Send + Sync + 'static {
    /// Returns the stamp of the file, or those of all files below the folder by their relative
    /// paths. Empty if there is no such file. Blocks. `Err` says why the files cannot be read.
    fn read(&self, path: &Path) -> Result<FileStamps, String>;
}

/// Stamps by path: relative to a folder, or the name of the file itself.
pub type FileStamps = BTreeMap<PathBuf, FileStamp>;

/// A stamp that changes whenever a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub modified_at: Timestamp,
    pub size: u64,
    /// The inode, which changes when another file replaces this one.
    pub inode: u64,
}
