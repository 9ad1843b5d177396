//! A pid file that is locked while its process lives. Only the lock proves which process holds the
//! file; the pid in it is for people, and any program that can write the file can change it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// A pid file held by this process. Removed on drop.
#[derive(Debug)]
pub(crate) struct PidFile {
    file: File,
    path: PathBuf,
}

#[derive(Debug)]
pub(crate) enum PidFileState {
    Acquired(PidFile),
    /// A live process holds the file. Contains its pid, if it has written one.
    HeldBy(Option<u32>),
}

/// Takes the file, unless a live process holds it.
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
        // The previous holder may have removed the file after we opened it and before we locked it.
        if !is_same_file(&file, path) {
            continue;
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        return Ok(PidFileState::Acquired(PidFile { file, path: path.to_path_buf() }));
    }
}

/// Returns the pid of the live process that holds the file, if any.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    // Use a shared lock, so that two processes that check at the same time do not take each other
    // for the holder.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => lock_holder(&file).or_else(|| read_pid(&mut file)),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// Returns whether the kernel's list of locks proves that this process holds the file.
pub(crate) fn is_held_by(path: &Path, pid: u32) -> bool {
    File::open(path).is_ok_and(|file| lock_holder(&file) == Some(pid))
}

/// Returns the process that has locked a file, if the kernel reports it (on Linux).
fn lock_holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    find_lock(&fs::read_to_string("/proc/locks").ok()?, inode)
}

/// Finds the process with an exclusive `flock` on an inode, in lines such as
/// `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF`.
fn find_lock(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_flock = fields.next()? == "FLOCK" && fields.nth(1)? == "WRITE";
        let pid = fields.next()?.parse().ok()?;
        let of_inode = fields.next()?.rsplit(':').next()?.parse() == Ok(inode);
        (is_flock && of_inode).then_some(pid)
    })
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
    fn the_holder_is_found_among_the_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:131 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 12 08:01:131 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 08:01:132 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 08:01:131 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 15 08:01:133 0 EOF\n";
        assert_eq!(find_lock(locks, 131), Some(14));
        assert_eq!(find_lock(locks, 133), None, "it only waits");
        assert_eq!(find_lock("", 131), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forged_number_does_not_change_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bus.pid");
        let _held = acquire(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        assert_eq!(holder(&path), Some(std::process::id()));
        assert!(is_held_by(&path, std::process::id()) && !is_held_by(&path, 1));
    }

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
