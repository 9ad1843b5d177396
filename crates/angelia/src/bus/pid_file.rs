//! A pid file, locked for as long as its process lives. Only the lock proves that the process is
//! alive; the pid in the file is for people and for signals.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// A pid file that this process holds. Removed when dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    file: File,
    path: PathBuf,
}

#[derive(Debug)]
pub(crate) enum PidFileState {
    Acquired(PidFile),
    /// A living process holds the file; its pid, if it has written one.
    HeldBy(Option<u32>),
}

/// Takes the file, unless a living process holds it.
pub(crate) fn acquire(path: &Path) -> io::Result<PidFileState> {
    loop {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(PidFileState::HeldBy(read_pid(&mut file))),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The previous holder may have removed the file between our open and our lock.
        if !is_same_file(&file, path) {
            continue;
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        return Ok(PidFileState::Acquired(PidFile { file, path: path.to_path_buf() }));
    }
}

/// Returns the pid of the living process that holds the file, if there is one.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    // A shared lock, so that two processes that check at once do not take each other for the
    // holder.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read_pid(&mut file),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn is_same_file(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(named)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (named.dev(), named.ino())
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if is_same_file(&self.file, &self.path) {
            let _gone = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_counts_and_not_the_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bus.pid");
        fs::write(&path, "garbage").unwrap();
        assert_eq!(holder(&path), None);
        let PidFileState::Acquired(held) = acquire(&path).unwrap() else {
            panic!("nobody has it");
        };
        assert_eq!(holder(&path), Some(std::process::id()));
        let second = acquire(&path).unwrap();
        assert!(matches!(second, PidFileState::HeldBy(Some(_))), "{second:?}");
        drop(held);
        assert!(!path.exists());
        assert!(matches!(acquire(&path).unwrap(), PidFileState::Acquired(_)));
    }
}
