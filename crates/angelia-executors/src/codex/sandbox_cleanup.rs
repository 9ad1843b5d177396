//! Removes the empty folders that Codex's sandbox leaves behind when a command is interrupted. They
//! are mount points and appear in every folder that commands may write to. An empty `.git` breaks
//! every tool that looks for a repository, even inside `/tmp`.
//!
//! Sessions share such folders. The mount points that do not exist yet are therefore recorded when
//! the first session starts to use a folder. They are removed only while no other session runs a
//! turn there, because its sandbox may still use them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The names of the sandbox's mount points.
const MOUNT_POINT_NAMES: [&str; 4] = [".git", ".codex", ".agents", ".aws"];

/// The folders that threads may write to, for all threads of the executor.
#[derive(Debug, Default)]
pub(super) struct WritableRoots(Mutex<HashMap<PathBuf, WritableRoot>>);

#[derive(Debug, Default)]
struct WritableRoot {
    watchers: usize,
    /// The number of threads in the middle of a turn.
    busy_threads: usize,
    /// Mount points that did not exist when the first thread started to watch the folder.
    missing_mount_points: Vec<PathBuf>,
}

/// One thread's registration in [`WritableRoots`].
#[derive(Debug)]
pub(super) struct SandboxCleanup {
    roots: Arc<WritableRoots>,
    folders: BTreeSet<PathBuf>,
    is_busy: bool,
}

/// Returns the folders to which a thread's sandbox lets commands write.
pub(super) fn writable_folders(
    cwd: &Path,
    environment: &BTreeMap<OsString, OsString>,
) -> BTreeSet<PathBuf> {
    let temporary = environment.get(OsStr::new("TMPDIR")).map(PathBuf::from);
    let temporary = temporary.filter(|path| path.is_absolute());
    [Some(cwd.to_owned()), Some("/tmp".into()), temporary]
        .into_iter()
        .flatten()
        // Two paths to the same folder must count as one.
        .map(|path| path.canonicalize().unwrap_or(path))
        .collect()
}

impl WritableRoots {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, WritableRoot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn register(self: &Arc<Self>, folders: BTreeSet<PathBuf>) -> SandboxCleanup {
        let mut roots = self.lock();
        for folder in &folders {
            let root = roots.entry(folder.clone()).or_insert_with(|| WritableRoot {
                missing_mount_points: find_missing_mount_points(folder),
                ..WritableRoot::default()
            });
            root.watchers += 1;
        }
        drop(roots);
        SandboxCleanup { roots: Arc::clone(self), folders, is_busy: false }
    }
}

fn find_missing_mount_points(folder: &Path) -> Vec<PathBuf> {
    let paths = MOUNT_POINT_NAMES.iter().map(|name| folder.join(name));
    paths.filter(|path| path.symlink_metadata().is_err()).collect()
}

impl SandboxCleanup {
    /// Marks the thread as busy: commands may run from now on.
    pub(super) fn mark_busy(&mut self) {
        if !std::mem::replace(&mut self.is_busy, true) {
            self.for_each_root(|root| root.busy_threads += 1);
        }
    }

    /// Marks the thread as idle: its commands have ended.
    pub(super) fn mark_idle(&mut self) {
        if std::mem::take(&mut self.is_busy) {
            self.for_each_root(|root| root.busy_threads = root.busy_threads.saturating_sub(1));
        }
    }

    /// Removes the recorded mount points that now exist and are empty. A folder with content
    /// belongs to the user. Leaves folders alone in which another thread is busy.
    pub(super) fn remove_mount_points(&mut self) {
        self.mark_idle();
        self.for_each_root(|root| {
            if root.busy_threads == 0 {
                root.missing_mount_points.iter().for_each(|path| remove_if_empty(path));
            }
        });
    }

    fn for_each_root(&self, act: impl Fn(&mut WritableRoot)) {
        let mut roots = self.roots.lock();
        for folder in &self.folders {
            if let Some(root) = roots.get_mut(folder) {
                act(root);
            }
        }
    }
}

fn remove_if_empty(path: &Path) {
    if std::fs::remove_dir(path).is_ok() {
        tracing::debug!(path = %path.display(), "removed an empty folder of the sandbox");
    }
}

impl Drop for SandboxCleanup {
    fn drop(&mut self) {
        self.remove_mount_points();
        let mut roots = self.roots.lock();
        for folder in &self.folders {
            if let Some(root) = roots.get_mut(folder) {
                root.watchers -= 1;
                if root.watchers == 0 {
                    roots.remove(folder);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn one(path: &Path) -> BTreeSet<PathBuf> {
        [path.to_owned()].into()
    }

    #[test]
    fn only_new_and_empty_folders_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path(".aws")).unwrap();
        let roots = Arc::<WritableRoots>::default();
        let mut leftovers = roots.register(one(folder.path()));
        for name in [".git", ".codex", "src"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path(".codex").join("config.toml"), "").unwrap();
        fs::write(path(".agents"), "a file").unwrap();
        leftovers.remove_mount_points();
        assert!(!path(".git").exists());
        for name in [".aws", ".codex", ".agents", "src"] {
            assert!(path(name).exists(), "{name}");
        }
    }

    #[test]
    fn the_last_one_takes_away_what_another_may_stand_on() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        let roots = Arc::<WritableRoots>::default();
        let mut one_of_two = roots.register(one(folder.path()));
        one_of_two.mark_busy();
        fs::create_dir(&git).unwrap();
        // The second thread arrives while one of the first thread's commands still uses the folder.
        let mut other = roots.register(one(folder.path()));
        other.mark_busy();
        one_of_two.remove_mount_points();
        drop(one_of_two);
        assert!(git.exists());
        other.mark_idle();
        assert!(git.exists(), "nothing was interrupted");
        drop(other);
        assert!(!git.exists());
        assert!(roots.lock().is_empty());
        fs::create_dir(&git).unwrap();
        drop(roots.register(one(folder.path())));
        assert!(git.exists(), "now it was there before");
    }

    #[test]
    fn every_folder_that_can_be_written_in() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let set = |value: &Path| [("TMPDIR".into(), value.as_os_str().to_owned())].into();
        let roots = writable_folders(&real, &set(&real.join(".")));
        assert_eq!(roots, [real.clone(), "/tmp".into()].into());
        let other = real.join("other");
        assert!(writable_folders(&real, &set(&other)).contains(&other));
        assert_eq!(writable_folders(&real, &set(Path::new("relative"))).len(), 2);
    }
}
