//! Lock files that tell which angelia processes of one home are alive.
//!
//! Every process that owns sessions or agents holds a locked file, named by its owner id, for as
//! long as it lives. The operating system releases the lock when the process ends, however it ends.
//! So a process that can lock another's file knows that its owner is dead, without trusting a pid
//! or a clock.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::ports::LeaseHolder;
use uuid::Uuid;

/// The folder of owner files, `<home>/run/owners`.
#[derive(Clone, Debug)]
pub struct OwnerRegistry {
    folder: Arc<Path>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "could not record this process in {folder}: {source}; \
     check that the folder may be written and that the disk is not full"
)]
pub struct RegisterError {
    folder: PathBuf,
    source: io::Error,
}

impl OwnerRegistry {
    pub fn new(folder: impl AsRef<Path>) -> Self {
        Self { folder: folder.as_ref().into() }
    }

    /// Records this process as an owner under a fresh id, until the returned value is dropped or
    /// the process ends. `command` names the process to people: `run`, `serve` …
    pub fn register(&self, command: &str) -> Result<OwnerLock, RegisterError> {
        self.try_register(command)
            .map_err(|source| RegisterError { folder: self.folder.to_path_buf(), source })
    }

    /// Returns whether the process with this owner id is still running. An owner whose state is
    /// unknown counts as alive, because the sessions and processes of a dead owner are taken over
    /// and ended.
    pub fn is_alive(&self, id: &str) -> bool {
        let Some(path) = self.owner_path(id) else {
            return false;
        };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        };
        // A shared lock, so that two processes that check at once do not take each other for the
        // owner.
        match file.try_lock_shared() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        }
    }

    /// Returns the pid and the command that the owner wrote into its file.
    pub fn holder(&self, id: &str) -> Option<LeaseHolder> {
        let text = fs::read_to_string(self.owner_path(id)?).ok()?;
        let (pid, command) = text.split_once('\n')?;
        Some(LeaseHolder { pid: pid.parse().ok()?, command: command.trim_end().to_owned() })
    }

    fn try_register(&self, command: &str) -> io::Result<OwnerLock> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder)?;
        self.remove_stale()?;
        loop {
            let id = Uuid::new_v4().simple().to_string();
            let path = self.folder.join(&id);
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            file.lock()?;
            // Another process may have removed the file as stale before it was locked.
            if !path.try_exists()? {
                continue;
            }
            write!(file, "{}\n{command}\n", std::process::id())?;
            return Ok(OwnerLock { id, path, _file: file, registry: self.clone() });
        }
    }

    /// Removes the files of dead processes.
    fn remove_stale(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(path) = entry.file_name().to_str().and_then(|id| self.owner_path(id)) else {
                continue;
            };
            let Ok(file) = File::open(&path) else {
                continue;
            };
            if file.try_lock_shared().is_ok() {
                // The shared lock is still held here: a process that is just registering waits for
                // it and then sees that its file has gone.
                let _gone_already = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Returns the path of an owner's file, or `None` if `id` cannot be an owner id: such a name
    /// must not lead out of the folder.
    fn owner_path(&self, id: &str) -> Option<PathBuf> {
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_id.then(|| self.folder.join(id))
    }
}

/// The registration of this process as an owner. Dropping it means that the process owns nothing
/// any more.
#[derive(Debug)]
pub struct OwnerLock {
    id: String,
    path: PathBuf,
    _file: File,
    registry: OwnerRegistry,
}

impl OwnerLock {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn registry(&self) -> &OwnerRegistry {
        &self.registry
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        let _removed_by_hand = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_lives_as_long_as_its_lock() {
        let home = tempfile::tempdir().unwrap();
        let owners = OwnerRegistry::new(home.path().join("run/owners"));
        let one = owners.register("serve").unwrap();
        let two = owners.register("run").unwrap();
        assert_ne!(one.id(), two.id());
        assert!(owners.is_alive(one.id()) && owners.is_alive(two.id()));
        assert_eq!(
            owners.holder(one.id()),
            Some(LeaseHolder { pid: std::process::id(), command: "serve".into() })
        );

        let gone = one.id().to_owned();
        drop(one);
        assert!(!owners.is_alive(&gone));
        assert!(owners.is_alive(two.id()));
    }

    #[test]
    fn what_the_dead_left_is_removed_and_the_living_are_not() {
        let home = tempfile::tempdir().unwrap();
        let owners = OwnerRegistry::new(home.path());
        let living = owners.register("serve").unwrap();
        fs::write(home.path().join("0123abcd"), "1\nrun\n").unwrap();
        assert!(!owners.is_alive("0123abcd"));

        let _another = owners.register("run").unwrap();
        assert!(!home.path().join("0123abcd").exists());
        assert!(owners.is_alive(living.id()));
    }

    #[test]
    fn a_name_that_is_no_id_is_nobody() {
        let home = tempfile::tempdir().unwrap();
        let owners = OwnerRegistry::new(home.path().join("owners"));
        let lock = owners.register("run").unwrap();
        let outside = home.path().join("outside");
        fs::write(&outside, "1\nrun\n").unwrap();
        let file = File::open(&outside).unwrap();
        file.lock().unwrap();
        for id in ["", "../outside", "..", "a/b"] {
            assert!(!owners.is_alive(id), "{id:?}");
            assert_eq!(owners.holder(id), None);
        }
        assert!(owners.is_alive(lock.id()));
    }
}
