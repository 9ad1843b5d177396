//! Opens and replaces files by their real path. The path was resolved before, and perhaps approved
//! by a person, so a symbolic link that has appeared in it since then is not followed.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, openat, renameat, statat, unlinkat,
    },
    io::Errno,
};
use uuid::Uuid;

/// Larger files are neither shown nor changed.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RealFileError {
    #[error("it is a folder; use `glob` to list it")]
    Folder,
    #[error("it is not a regular file")]
    Special,
    #[error(
        "it has {0} bytes, and at most {MAX_FILE_BYTES} are read; use `grep`, or a command for the part you need"
    )]
    TooLarge(u64),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for RealFileError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ISDIR => Self::Folder,
            Errno::NXIO => Self::Special,
            other => Self::Io(other.into()),
        }
    }
}

/// Reads a file; `None` if it does not exist.
pub(super) fn read_file(real: &Path) -> Result<Option<Vec<u8>>, RealFileError> {
    // `NONBLOCK` and `NOCTTY`: opening a named pipe or a device must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match open_real(real, flags) {
        Err(Errno::NOENT) => return Ok(None),
        opened => File::from(opened?),
    };
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(RealFileError::Folder);
    }
    if !found.is_file() {
        return Err(RealFileError::Special);
    }
    let mut bytes =
        Vec::with_capacity(usize::try_from(found.len().min(MAX_FILE_BYTES)).unwrap_or(0));
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(RealFileError::TooLarge(found.len()));
    }
    Ok(Some(bytes))
}

/// The new content of a file, written next to it. It replaces the file when committed, and is
/// removed if it is dropped before that.
#[derive(Debug)]
pub(super) struct StagedFile {
    folder: OwnedFd,
    name: OsString,
    /// `None` once committed.
    temporary: Option<PathBuf>,
}

impl StagedFile {
    /// Writes the content. Keeps the mode and owner of an existing file, and creates missing
    /// folders.
    pub(super) fn write(real: &Path, bytes: &[u8]) -> Result<Self, RealFileError> {
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(RealFileError::Folder);
        };
        std::fs::create_dir_all(parent)?;
        let folder = open_folder(parent)?;
        let temporary = PathBuf::from(format!(".angelia-{}.tmp", Uuid::new_v4().simple()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&folder, &temporary, flags, Mode::from_raw_mode(0o666))?;
        let staged = Self { folder, name: name.to_owned(), temporary: Some(temporary) };
        let mut file = File::from(file);
        file.write_all(bytes)?;
        match statat(&staged.folder, &staged.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) => {
                let ours = fstat(&file)?;
                if (old.st_uid, old.st_gid) != (ours.st_uid, ours.st_gid) {
                    // Only root may do this; for anybody else, the file becomes their own, as with
                    // every editor.
                    let owner = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
                    let _refused = fchown(&file, Some(owner.0), Some(owner.1));
                }
                fchmod(&file, Mode::from_raw_mode(old.st_mode))?;
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(staged)
    }

    /// Replaces the file atomically.
    pub(super) fn commit(mut self) -> Result<(), RealFileError> {
        if let Some(temporary) = self.temporary.take() {
            let renamed = renameat(&self.folder, &temporary, &self.folder, &self.name);
            if let Err(error) = renamed {
                self.temporary = Some(temporary);
                return Err(error.into());
            }
        }
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _gone = unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
    }
}

/// Replaces a file with this content, or creates it.
pub(super) fn replace_file(real: &Path, bytes: &[u8]) -> Result<(), RealFileError> {
    StagedFile::write(real, bytes)?.commit()
}

pub(super) fn remove_file(real: &Path) -> Result<(), RealFileError> {
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(RealFileError::Folder);
    };
    Ok(unlinkat(open_folder(parent)?, name, AtFlags::empty())?)
}

fn open_folder(real: &Path) -> Result<OwnedFd, Errno> {
    open_real(real, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)
}

#[cfg(target_os = "linux")]
fn open_real(real: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{CWD, ResolveFlags, openat2};

    match openat2(CWD, real, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // The kernel is older than 5.6, or a container's filter refuses the call.
        Err(Errno::NOSYS) => open_last_real(real, flags),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_real(real: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    open_last_real(real, flags)
}

/// Opens a file without following a link in the last component; links before it are followed.
fn open_last_real(real: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(real, flags | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn a_file_is_replaced_in_one_step_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("script");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let mut reader = File::open(&path).unwrap();
        replace_file(&path, b"new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o750);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        // A program that has the old file open still reads all of it.
        let mut old = String::new();
        reader.read_to_string(&mut old).unwrap();
        assert_eq!(old, "old");
        replace_file(&root.join("a/b/c"), b"deep").unwrap();
        assert_eq!(fs::read(root.join("a/b/c")).unwrap(), b"deep");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn what_is_not_committed_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let staged = StagedFile::write(&root.join("file"), b"x").unwrap();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
        drop(staged);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }

    #[test]
    fn a_link_that_appears_later_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("else")).unwrap();
        fs::write(root.join("else/secret"), "s3cret").unwrap();
        symlink("else", root.join("folder")).unwrap();
        symlink("else/secret", root.join("link")).unwrap();
        assert!(read_file(&root.join("link")).is_err());
        replace_file(&root.join("link"), b"new").unwrap();
        assert_eq!(fs::read(root.join("else/secret")).unwrap(), b"s3cret", "the link was replaced");
        if cfg!(target_os = "linux") {
            assert!(read_file(&root.join("folder/secret")).is_err());
            assert!(replace_file(&root.join("folder/secret"), b"x").is_err());
            assert!(remove_file(&root.join("folder/secret")).is_err());
        }
    }

    #[test]
    fn only_regular_files_of_bounded_size() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), Mode::from_raw_mode(0o600))
            .unwrap();
        File::create(root.join("big")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(read_file(&root), Err(RealFileError::Folder)));
        assert!(matches!(read_file(&root.join("pipe")), Err(RealFileError::Special)));
        assert!(matches!(read_file(&root.join("big")), Err(RealFileError::TooLarge(_))));
        assert!(read_file(&root.join("none")).unwrap().is_none());
    }
}
