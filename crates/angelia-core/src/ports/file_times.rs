//! Change stamps of files, for schedules that watch them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

pub trait FileTimes: Send + Sync + 'static {
    /// Returns the file, or all files below the folder by their relative paths; empty if there is
    /// no such file. Blocks. `Err` gives the reason why the files cannot be read.
    fn read(&self, path: &Path) -> Result<FileStamps, String>;
}

/// Files by their path: relative to a folder, or the name of the file itself.
pub type FileStamps = BTreeMap<PathBuf, FileStamp>;

/// A stamp that changes whenever a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub modified_at: Timestamp,
    pub size: u64,
    /// The inode, because a file that replaces another has a new one.
    pub inode: u64,
}
