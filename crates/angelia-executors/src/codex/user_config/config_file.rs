//! The `config.toml` file: reads it, and replaces it atomically by an edited text.
//!
//! Its folder is locked meanwhile, so that two Angelia processes do not edit the file at once.
//! Codex does not know of the lock, so the file is compared again right before it is replaced.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, OFlags, flock};

const FILE_NAME: &str = "config.toml";

/// How long to wait for another Angelia process to release the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest chain of symbolic links that is followed.
const MAX_LINKS: usize = 40;

#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("another `angelia codex` is working on {}", .0.display())]
    Busy(PathBuf),
    #[error("{} was changed by another program meanwhile", .0.display())]
    Changed(PathBuf),
}

/// Codex's `config.toml`; its folder is locked as long as this value lives.
#[derive(Debug)]
pub struct ConfigFile {
    /// The path as people know it.
    path: PathBuf,
    /// The path after resolving symbolic links.
    resolved_path: PathBuf,
    _lock: File,
}

impl ConfigFile {
    /// Opens the file in Codex's home folder, which must exist.
    pub fn open(home: &Path) -> Result<Self, ConfigFileError> {
        let path = home.join(FILE_NAME);
        let failed = |source| ConfigFileError::Io { what: "lock", path: home.to_owned(), source };
        let lock = File::open(home).map_err(failed)?;
        let until = Instant::now() + LOCK_TIMEOUT;
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(failed(error.into()));
            }
            if Instant::now() >= until {
                return Err(ConfigFileError::Busy(path));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let real = follow_links(&path).map_err(|source| ConfigFileError::Io {
            what: "follow",
            path: path.clone(),
            source,
        })?;
        Ok(Self { path, resolved_path: real, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `None` if there is no such file.
    pub fn read(&self) -> Result<Option<String>, ConfigFileError> {
        // Opening a named pipe would otherwise wait for its writer.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut file = match options.open(&self.resolved_path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.io_error("read", error)),
        };
        let found = file.metadata().map_err(|error| self.io_error("read", error))?;
        if !found.is_file() {
            return Err(ConfigFileError::NotAFile(self.path.clone()));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| self.io_error("read", error))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(ConfigFileError::NotText(self.path.clone())),
        }
    }

    /// Replaces `old`, the text that was read, by `new`. `None` means that there is no file.
    pub fn replace(&self, old: Option<&str>, new: Option<&str>) -> Result<(), ConfigFileError> {
        if old == new {
            return Ok(());
        }
        let Some(new) = new else {
            self.check_unchanged(old)?;
            return fs::remove_file(&self.resolved_path)
                .map_err(|error| self.io_error("remove", error));
        };
        let draft = self
            .resolved_path
            .with_file_name(format!(".{FILE_NAME}.angelia-{}", std::process::id()));
        let replaced = self
            .write_draft(&draft, new)
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

    fn check_unchanged(&self, old: Option<&str>) -> Result<(), ConfigFileError> {
        if self.read()?.as_deref() == old {
            return Ok(());
        }
        Err(ConfigFileError::Changed(self.path.clone()))
    }

    /// Writes the draft with the mode of the file it replaces. A new file is private, because it
    /// may hold keys.
    fn write_draft(&self, draft: &Path, text: &str) -> io::Result<()> {
        let mode = match fs::metadata(&self.resolved_path) {
            Ok(old) => old.permissions().mode() & 0o7777,
            Err(_none) => 0o600,
        };
        // A process with this id may have been killed and left a draft behind.
        let _none = fs::remove_file(draft);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()
    }

    fn io_error(&self, what: &'static str, source: io::Error) -> ConfigFileError {
        ConfigFileError::Io { what, path: self.path.clone(), source }
    }
}

/// Follows symbolic links, also to a file that does not exist.
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
        let file = ConfigFile::open(&home).unwrap();
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
        assert!(matches!(changed, ConfigFileError::Changed(_)));
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
        let count = || {
            let file = ConfigFile::open(home.path()).unwrap();
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
        let text = fs::read_to_string(home.path().join(FILE_NAME)).unwrap();
        assert_eq!(text, "8");
    }

    #[test]
    fn what_is_no_text_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE_NAME), b"a = \"\xff\"").unwrap();
        let file = ConfigFile::open(home.path()).unwrap();
        assert!(matches!(file.read(), Err(ConfigFileError::NotText(_))));
        let loops = home.path().join("loops");
        fs::create_dir(&loops).unwrap();
        std::os::unix::fs::symlink(FILE_NAME, loops.join(FILE_NAME)).unwrap();
        assert!(ConfigFile::open(&loops).is_err());
    }
}
