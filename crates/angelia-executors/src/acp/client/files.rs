//! Reads and writes files in the working directory, and no others.
//!
//! First, all symbolic links of a path are resolved, and the result must be inside the directory.
//! Then the file is opened from the directory downwards, one component at a time and without
//! following links, so a link that is created between the two steps has no effect. Only regular
//! files are touched.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, Mode, OFlags, fstat, mkdirat, open, openat},
    io::Errno,
};

use crate::real_path::{RealPathError, real_path};

/// Larger files are refused.
const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("{} is outside the working directory; nothing is read, written or run there", .0.display())]
    Outside(PathBuf),
    #[error("{} is not a plain file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} is larger than {MAX_READ_BYTES} bytes; read a smaller file", .0.display())]
    TooLarge(PathBuf),
    #[error("{} is not text", .0.display())]
    NotText(PathBuf),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The working directory, held open.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    dir: OwnedFd,
}

const DIRECTORY_FLAGS: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// `NONBLOCK` and `NOCTTY` keep the opening of a named pipe or a device from blocking.
const FILE_FLAGS: OFlags =
    OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl WorkDir {
    pub(crate) fn open(cwd: &Path) -> io::Result<Self> {
        let path = cwd.canonicalize()?;
        let dir = open(&path, DIRECTORY_FLAGS, Mode::empty())?;
        Ok(Self { path, dir })
    }

    /// Returns the path without symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Resolves a directory inside the working directory.
    pub(super) fn resolve_folder(&self, path: &Path) -> Result<PathBuf, FileError> {
        let names = self.resolve(path)?;
        let folder = self.path.join(names);
        match folder.symlink_metadata() {
            Ok(found) if found.is_dir() => Ok(folder),
            Ok(_) => Err(FileError::NotAFile(folder)),
            Err(source) => Err(io_error(path)(source)),
        }
    }

    pub(super) fn read(
        &self,
        path: &Path,
        line: Option<u64>,
        lines: Option<u64>,
    ) -> Result<String, FileError> {
        let mut file = self.open_file(path, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        let read = (&mut file).take(MAX_READ_BYTES + 1).read_to_end(&mut bytes);
        let read = read.map_err(io_error(path))?;
        if read as u64 > MAX_READ_BYTES {
            return Err(FileError::TooLarge(path.to_owned()));
        }
        let text = String::from_utf8(bytes).map_err(|_| FileError::NotText(path.to_owned()))?;
        Ok(match (line, lines) {
            (None, None) => text,
            _ => excerpt(&text, line.unwrap_or(1), lines),
        })
    }

    pub(super) fn write(&self, path: &Path, text: &str) -> Result<(), FileError> {
        // No `TRUNC`: truncate only after `open_file` has checked that the file is regular.
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let mut file = self.open_file(path, flags)?;
        let mut write = || {
            file.set_len(0)?;
            file.write_all(text.as_bytes())
        };
        write().map_err(io_error(path))
    }

    fn open_file(&self, path: &Path, flags: OFlags) -> Result<File, FileError> {
        let names = self.resolve(path)?;
        let Some(name) = names.file_name() else {
            return Err(FileError::NotAFile(path.to_owned()));
        };
        let creates = flags.contains(OFlags::CREATE);
        let folders = names.parent().unwrap_or(Path::new(""));
        let mut inner: Option<OwnedFd> = None;
        for folder in folders.components() {
            let dir = inner.as_ref().unwrap_or(&self.dir);
            let name = Path::new(folder.as_os_str());
            if creates {
                match mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(io_error(path)(error.into())),
                }
            }
            let opened = openat(dir, name, DIRECTORY_FLAGS, Mode::empty());
            inner = Some(opened.map_err(|error| open_error(path, error))?);
        }
        let dir = inner.as_ref().unwrap_or(&self.dir);
        let file = openat(dir, name, flags | FILE_FLAGS, Mode::from_raw_mode(0o666))
            .map_err(|error| open_error(path, error))?;
        let found = fstat(&file).map_err(|error| io_error(path)(error.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        Ok(File::from(file))
    }

    /// Returns the path relative to the working directory, without symbolic links. Its last
    /// components need not exist.
    fn resolve(&self, path: &Path) -> Result<PathBuf, FileError> {
        let outside = || FileError::Outside(path.to_owned());
        let real = real_path(&self.path.join(path)).map_err(|error| match error {
            RealPathError::Nowhere => outside(),
            RealPathError::Io(source) => io_error(path)(source),
        })?;
        real.strip_prefix(&self.path).map(Path::to_owned).map_err(|_| outside())
    }
}

/// Converts an error from `openat`. `LOOP` means that a link appeared after the path was resolved;
/// it may lead anywhere.
fn open_error(path: &Path, error: Errno) -> FileError {
    match error {
        Errno::LOOP => FileError::Outside(path.to_owned()),
        Errno::ISDIR | Errno::NXIO => FileError::NotAFile(path.to_owned()),
        error => io_error(path)(error.into()),
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError::Io { path: path.clone(), source }
}

/// Returns `lines` lines starting at `line`, which is counted from 1.
fn excerpt(text: &str, line: u64, lines: Option<u64>) -> String {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let from = text.split_inclusive('\n').skip(count(line.max(1) - 1));
    from.take(lines.map_or(usize::MAX, count)).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    struct TestDir {
        _folder: tempfile::TempDir,
        outside: PathBuf,
        root: WorkDir,
    }

    fn test_dir() -> TestDir {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("work"), folder.path().join("else"));
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "s3cret").unwrap();
        fs::write(inside.join("a.txt"), "one\ntwo\nthree").unwrap();
        TestDir { root: WorkDir::open(&inside).unwrap(), outside, _folder: folder }
    }

    impl TestDir {
        fn read(&self, path: impl AsRef<Path>) -> Result<String, FileError> {
            self.root.read(path.as_ref(), None, None)
        }

        fn inside(&self, path: &str) -> PathBuf {
            self.root.path().join(path)
        }
    }

    #[test]
    fn files_are_read_and_written() {
        let place = test_dir();
        assert_eq!(place.read(place.inside("a.txt")).unwrap(), "one\ntwo\nthree");
        let some = |line, lines| {
            let path = place.inside("a.txt");
            place.root.read(&path, line, lines).unwrap()
        };
        assert_eq!(some(Some(2), None), "two\nthree");
        assert_eq!(some(Some(2), Some(1)), "two\n");
        assert_eq!(some(None, Some(1)), "one\n");
        assert_eq!(some(Some(9), Some(9)), "");
        for path in ["a.txt", "new.txt", "sub/new.txt", "not/there/yet.txt"] {
            place.root.write(&place.inside(path), "x").unwrap();
            assert_eq!(place.read(place.inside(path)).unwrap(), "x");
        }
    }

    #[test]
    fn no_way_leads_outside() {
        let place = test_dir();
        let secret = place.outside.join("secret");
        symlink(&secret, place.inside("link")).unwrap();
        symlink(&place.outside, place.inside("folder")).unwrap();
        symlink(place.outside.join("not-there"), place.inside("dangling")).unwrap();
        symlink("/proc/self", place.inside("proc")).unwrap();
        let ways = [
            secret.clone(),
            "/etc/passwd".into(),
            "../else/secret".into(),
            place.inside("../else/secret"),
            place.inside("sub/../../else/secret"),
            place.inside("link"),
            place.inside("folder/secret"),
            place.inside("folder/new"),
            place.inside("dangling"),
            place.inside("proc/environ"),
            place.inside("proc/root/etc/passwd"),
            "/proc/self/root/etc/passwd".into(),
            "/proc/self/environ".into(),
        ];
        for way in &ways {
            let read = place.read(way);
            assert!(matches!(read, Err(FileError::Outside(_))), "{way:?}: {read:?}");
            let written = place.root.write(way, "changed");
            assert!(matches!(written, Err(FileError::Outside(_))), "{way:?}");
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), "s3cret");
        assert_eq!(fs::read_dir(&place.outside).unwrap().count(), 1);
        assert!(place.root.resolve_folder(&place.inside("folder")).is_err());
        assert!(place.root.resolve_folder(&place.inside("sub")).is_ok());
    }

    #[test]
    fn a_link_that_stays_inside_is_followed() {
        let place = test_dir();
        symlink("a.txt", place.inside("link")).unwrap();
        symlink("../sub", place.inside("sub/itself")).unwrap();
        place.root.write(&place.inside("link"), "through").unwrap();
        assert_eq!(place.read(place.inside("a.txt")).unwrap(), "through");
        place.root.write(&place.inside("sub/itself/b"), "deep").unwrap();
        assert_eq!(place.read(place.inside("sub/b")).unwrap(), "deep");
    }

    #[test]
    fn only_plain_files_of_text() {
        let place = test_dir();
        fs::write(place.inside("bytes"), [0xff, 0xfe]).unwrap();
        let read = place.read(place.inside("bytes"));
        assert!(matches!(read, Err(FileError::NotText(_))), "{read:?}");
        let pipe = place.inside("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
        for path in ["sub", "pipe", "."] {
            let path = place.inside(path);
            let (read, written) = (place.read(&path), place.root.write(&path, "x"));
            assert!(matches!(read, Err(FileError::NotAFile(_))), "{read:?}");
            assert!(matches!(written, Err(FileError::NotAFile(_))), "{written:?}");
        }
        assert!(matches!(place.read(place.inside("missing")), Err(FileError::Io { .. })));
        fs::File::create(place.inside("big")).unwrap().set_len(MAX_READ_BYTES + 1).unwrap();
        let read = place.read(place.inside("big"));
        assert!(matches!(read, Err(FileError::TooLarge(_))), "{read:?}");
    }
}
