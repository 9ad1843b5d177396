//! A configuration file of another program: reads it, and atomically replaces it with an edited
//! text.
//!
//! The folder is locked in the meantime, so that two Angelia processes do not edit the file at
//! once. The other program does not know about the lock, so the file is compared again right before
//! it is replaced.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::error::{CommandError, Exit};

/// How long to wait for another Angelia process to release the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The permissions of a file that may contain a key.
pub(crate) const PRIVATE_MODE: u32 = 0o600;
const MODE_MASK: u32 = 0o7777;

/// Maximum number of symbolic links to follow.
const MAX_LINKS: usize = 40;

#[derive(Debug, thiserror::Error)]
pub(crate) enum UserFileError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("another `angelia` is working on {}", .0.display())]
    Busy(PathBuf),
    #[error("{} was changed by another program meanwhile", .0.display())]
    Changed(PathBuf),
}

/// A file of another program. Its folder is locked while this value lives.
#[derive(Debug)]
pub(crate) struct UserFile {
    /// The path that people know.
    path: PathBuf,
    /// The path after resolving symbolic links.
    resolved_path: PathBuf,
    _lock: File,
}

impl UserFile {
    /// Opens a file, which need not exist, in a folder that must exist.
    pub(crate) fn open(path: &Path) -> Result<Self, UserFileError> {
        let folder = path.parent().unwrap_or(path);
        let failed = |source| UserFileError::Io { what: "lock", path: folder.to_owned(), source };
        let lock = File::open(folder).map_err(failed)?;
        let until = Instant::now() + LOCK_TIMEOUT;
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(failed(error.into()));
            }
            if Instant::now() >= until {
                return Err(UserFileError::Busy(path.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let real = follow_links(path).map_err(|source| UserFileError::Io {
            what: "follow",
            path: path.to_owned(),
            source,
        })?;
        let file = Self { path: path.to_owned(), resolved_path: real, _lock: lock };
        file.remove_stale_drafts();
        Ok(file)
    }

    pub(crate) fn resolved_path(&self) -> &Path {
        &self.resolved_path
    }

    /// Returns the permissions of the file, if there is one.
    pub(crate) fn mode(&self) -> Option<u32> {
        let found = fs::metadata(&self.resolved_path).ok()?;
        Some(found.permissions().mode() & MODE_MASK)
    }

    /// Reads the file. Returns `None` if it does not exist.
    pub(crate) fn read(&self) -> Result<Option<String>, UserFileError> {
        // Otherwise, opening a named pipe would wait for a writer.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut file = match options.open(&self.resolved_path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.io_error("read", error)),
        };
        let found = file.metadata().map_err(|error| self.io_error("read", error))?;
        if !found.is_file() {
            return Err(UserFileError::NotAFile(self.path.clone()));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| self.io_error("read", error))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(UserFileError::NotText(self.path.clone())),
        }
    }

    /// Replaces `old`, the text that was read, with `new`. `None` means that there is no file. The
    /// file keeps its permissions; a new file is private, because it may contain keys.
    pub(crate) fn replace(
        &self,
        old: Option<&str>,
        new: Option<&str>,
    ) -> Result<(), UserFileError> {
        if old == new {
            return Ok(());
        }
        self.replace_with_mode(old, new, self.mode().unwrap_or(PRIVATE_MODE))
    }

    /// Replaces `old` with `new`, with these permissions.
    pub(crate) fn replace_with_mode(
        &self,
        old: Option<&str>,
        new: Option<&str>,
        mode: u32,
    ) -> Result<(), UserFileError> {
        let Some(new) = new else {
            self.check_unchanged(old)?;
            return fs::remove_file(&self.resolved_path)
                .map_err(|error| self.io_error("remove", error));
        };
        let draft = self.resolved_path.with_file_name(format!(
            "{}{}",
            self.draft_prefix(),
            std::process::id()
        ));
        let replaced = write_draft(&draft, new, mode)
            .map_err(|error| self.io_error("write", error))
            .and_then(|()| self.check_unchanged(old))
            .and_then(|()| {
                fs::rename(&draft, &self.resolved_path)
                    .map_err(|error| self.io_error("replace", error))
            });
        if replaced.is_err() {
            let _left_behind = fs::remove_file(&draft);
        }
        replaced
    }

    fn check_unchanged(&self, old: Option<&str>) -> Result<(), UserFileError> {
        if self.read()?.as_deref() == old {
            return Ok(());
        }
        Err(UserFileError::Changed(self.path.clone()))
    }

    /// Returns the prefix of the names of drafts; the process's id follows.
    fn draft_prefix(&self) -> String {
        let name = self.resolved_path.file_name().unwrap_or_default();
        format!(".{}.angelia-", name.to_string_lossy())
    }

    /// Removes the drafts of killed processes, because a draft may contain a key. No other process
    /// writes while the folder is locked.
    fn remove_stale_drafts(&self) {
        let prefix = self.draft_prefix();
        let folder = self.resolved_path.parent().map(fs::read_dir);
        for entry in folder.into_iter().flatten().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _gone = fs::remove_file(entry.path());
            }
        }
    }

    fn io_error(&self, what: &'static str, source: io::Error) -> UserFileError {
        UserFileError::Io { what, path: self.path.clone(), source }
    }
}

impl From<UserFileError> for CommandError {
    fn from(error: UserFileError) -> Self {
        let (exit, hint) = match &error {
            UserFileError::NotText(_) | UserFileError::NotAFile(_) => {
                (Exit::Config, "correct it; nothing was changed")
            }
            UserFileError::Busy(_) | UserFileError::Changed(_) => {
                (Exit::TryLater, "nothing was changed; try again")
            }
            UserFileError::Io { .. } => (Exit::Failed, "nothing was changed"),
        };
        Self::new(exit, error.to_string()).with_hint(hint)
    }
}

/// Writes a draft that only the owner can read until it gets its final permissions.
fn write_draft(draft: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(PRIVATE_MODE).open(draft)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Follows symbolic links, even to a file that does not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().map_or(to.clone(), |folder| folder.join(&to)),
            Err(error) => {
                let is_no_link =
                    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound);
                return if is_no_link { Ok(path) } else { Err(error) };
            }
        }
    }
    Err(io::Error::other("too many links"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_a_link_and_a_mode_a_mode() {
        let root = tempfile::tempdir().unwrap();
        let (home, dots) = (root.path().join("home"), root.path().join("dots"));
        fs::create_dir(&home).unwrap();
        fs::create_dir(&dots).unwrap();
        let link = home.join("config.toml");
        std::os::unix::fs::symlink("../dots/codex.toml", &link).unwrap();
        let file = UserFile::open(&link).unwrap();
        assert_eq!(file.read().unwrap(), None);
        file.replace(None, Some("a = 1\n")).unwrap();
        let real = dots.join("codex.toml");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&real), 0o600);
        fs::set_permissions(&real, fs::Permissions::from_mode(0o664)).unwrap();
        file.replace(Some("a = 1\n"), Some("b = 2\n")).unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "b = 2\n");
        assert_eq!(mode(&real), 0o664);
        assert!(link.symlink_metadata().unwrap().is_symlink());

        let changed = file.replace(Some("a = 1\n"), Some("c = 3\n")).unwrap_err();
        assert!(matches!(changed, UserFileError::Changed(_)));
        assert_eq!(fs::read_to_string(&link).unwrap(), "b = 2\n");
        file.replace(Some("b = 2\n"), None).unwrap();
        assert!(!real.exists() && link.symlink_metadata().is_ok());
        for folder in [&home, &dots] {
            let names: Vec<_> = fs::read_dir(folder).unwrap().flatten().collect();
            assert!(names.len() <= 1, "no draft is left: {names:?}");
        }
    }

    #[test]
    fn two_do_not_work_on_one_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.toml");
        let count = || {
            let file = UserFile::open(&path).unwrap();
            let old = file.read().unwrap();
            let number: u32 = old.as_deref().map_or(0, |text| text.parse().unwrap());
            let new = (number + 1).to_string();
            file.replace(old.as_deref(), Some(&new)).unwrap();
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(count);
            }
        });
        assert_eq!(fs::read_to_string(path).unwrap(), "8");
    }

    #[test]
    fn what_is_no_text_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.toml");
        fs::write(&path, b"a = \"\xff\"").unwrap();
        let file = UserFile::open(&path).unwrap();
        assert!(matches!(file.read(), Err(UserFileError::NotText(_))));
        let itself = home.path().join("itself");
        std::os::unix::fs::symlink("itself", &itself).unwrap();
        assert!(UserFile::open(&itself).is_err());
    }

    #[test]
    fn what_a_killed_process_left_is_cleaned_up() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.toml");
        let stale = home.path().join(".config.toml.angelia-1");
        fs::write(&stale, "a key").unwrap();
        let other = home.path().join(".other.toml.angelia-1");
        fs::write(&other, "").unwrap();
        let file = UserFile::open(&path).unwrap();
        assert!(!stale.exists() && other.exists());
        file.replace_with_mode(None, Some("a = 1\n"), 0o640).unwrap();
        assert_eq!(file.mode(), Some(0o640));
    }
}
