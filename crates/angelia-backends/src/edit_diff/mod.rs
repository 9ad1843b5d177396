//! The unified diff of the changes that an agent wants to make, for the person who decides.
//!
//! - [`change`]: applies the changes to a file's text.
//! - [`notebook`]: the cells of a notebook.
//! - [`unified`]: writes the diff of one file, and limits its length.
//!
//! This file reads the files; the others are pure.

mod change;
mod notebook;
mod unified;

#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{FileChange, FileEdit},
    ports::{BoxFuture, EditDiffer},
};
use rustix::fs::{Mode, OFlags};

/// Larger files are not compared.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Compares edits with the files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileDiffs;

impl EditDiffer for FileDiffs {
    fn diff(&self, edits: Vec<FileEdit>, cwd: PathBuf) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async move {
            if edits.is_empty() {
                return None;
            }
            // Reading and comparing may take a while; the engine's threads must not wait for it.
            let work = move || diff_edits(&edits, &cwd);
            tokio::task::spawn_blocking(work).await.ok()
        })
    }
}

/// The content of a file before the change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OldContent {
    Missing,
    Text(String),
    /// The reason why there is no text, such as "it is binary".
    Unknown(&'static str),
}

fn diff_edits(edits: &[FileEdit], cwd: &Path) -> Arc<str> {
    let mut diff = String::new();
    // Several edits of one file are one change.
    for edits in edits.chunk_by(|one, next| one.path == next.path) {
        let path = cwd.join(&edits[0].path);
        let changes: Vec<&FileChange> = edits.iter().map(|edit| &edit.change).collect();
        diff.push_str(&unified::file_diff(&path, cwd, read_old(&path), &changes));
        if diff.len() > unified::MAX_DIFF_BYTES {
            break;
        }
    }
    unified::limit_length(diff).into()
}

fn read_old(path: &Path) -> OldContent {
    match read_text(path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => OldContent::Missing,
        Err(_) => OldContent::Unknown("it cannot be read"),
    }
}

fn read_text(path: &Path) -> io::Result<OldContent> {
    // A pipe without a writer would block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Ok(OldContent::Unknown("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Ok(OldContent::Unknown("it is larger than 1 MiB"));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => OldContent::Text(text),
        _ => OldContent::Unknown("it is binary"),
    })
}
