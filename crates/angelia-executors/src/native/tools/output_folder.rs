//! The session's `output` folder, with the complete output of commands of which the model sees only
//! a part.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Further output of a command is not kept.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Creates the output files of a session.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    next: AtomicU32,
}

impl OutputFolder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), next: AtomicU32::new(1) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates `NAME-NUMBER.txt`, which only the owner can read.
    pub(super) fn create(&self, name: &str) -> io::Result<OutputFile> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.path.join(format!("{name}-{number}.txt"));
            let mut options = OpenOptions::new();
            options.read(true).append(true).create_new(true).mode(0o600);
            match options.open(&path) {
                Ok(file) => return Ok(OutputFile { path, file, bytes: 0 }),
                // The session was closed and reopened, so its earlier files exist.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The output of one command on disk. Writes go to the page cache, so they do not block for long.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl OutputFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes
    }

    /// Appends bytes, up to the limit. If the disk is full, the rest of the file is lost, but the
    /// command continues.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = usize::try_from(MAX_FILE_BYTES - self.bytes).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        match self.file.write_all(bytes) {
            Ok(()) => self.bytes += bytes.len() as u64,
            Err(error) => tracing::debug!(%error, "cannot write {}", self.path.display()),
        }
    }

    /// Returns at most `limit` bytes, starting at `from`.
    pub(super) fn read(&self, from: u64, limit: usize) -> io::Result<Vec<u8>> {
        let wanted = usize::try_from(self.bytes.saturating_sub(from)).unwrap_or(limit).min(limit);
        let mut bytes = vec![0; wanted];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }
}
