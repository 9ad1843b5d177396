//! Empty folders that the program's sandbox leaves behind when a command is interrupted: mount points in
//! every folder where commands may write. An empty `.git` would break every tool that looks for a
//! repository, below `/tmp` as well.
//!
//! Sessions share such folders. So what was missing is remembered from the first of them on, and taken
//! away only while no other one has a command there that may still stand on it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Mount points of the sandbox.
const NAMES: [&str; 4] = [".git", ".codex", ".agents", ".aws"];

/// The folders that threads may write in, of all threads.
#[derive(Debug, Default)]
pub(super) struct Roots(Mutex<HashMap<PathBuf, Root>>);

#[derive(Debug, Default)]
struct Root {
    watchers: usize,
    /// Threads in the middle of a turn.
    busy: usize,
    /// What was not there when the first came.
    missing: Vec<PathBuf>,
}

/// One thread's share of it.
#[derive(Debug)]
pub(super) struct Leftovers {
    roots: Arc<Roots>,
    folders: BTreeSet<PathBuf>,
    is_busy: bool,
}

/// Where the sandbox of a thread lets commands write.
pub(super) fn writable(
    cwd: &Path,
    environment: &BTreeMap<OsString, OsString>,
) -> BTreeSet<PathBuf> {
    let temporary = environment.get(OsStr::new("TMPDIR")).map(PathBuf::from);
    let temporary = temporary.filter(|path| path.is_absolute());
    [Some(cwd.to_owned()), Some("/tmp".into()), temporary]
        .into_iter()
        .flatten()
        // Two ways to one folder are one folder.
        .map(|path| path.canonicalize().unwrap_or(path))
        .collect()
}

impl Roots {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Root>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watch(self: &Arc<Self>, folders: BTreeSet<PathBuf>) -> Leftovers {
        let mut roots = self.lock();
        for folder in &folders {
            let root = roots
                .entry(folder.clone())
                .or_insert_with(|| Root { missing: missing(folder), ..Root::default() });
            root.watchers += 1;
        }
        drop(roots);
        Leftovers { roots: Arc::clone(self), folders, is_busy: false }
    }
}

fn missing(folder: &Path) -> Vec<PathBuf> {
    let paths = NAMES.iter().map(|name| folder.join(name));
    paths.filter(|path| path.symlink_metadata().is_err()).collect()
}

impl Leftovers {
    /// Commands may run from now on.
    pub(super) fn begin(&mut self) {
        if !std::mem::replace(&mut self.is_busy, true) {
            self.each(|root| root.busy += 1);
        }
    }

    /// They do not any more.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.is_busy) {
            self.each(|root| root.busy = root.busy.saturating_sub(1));
        }
    }

    /// Removes those that are there now and hold nothing. What holds something is somebody's.
    pub(super) fn remove(&mut self) {
        self.end();
        self.each(|root| {
            if root.busy == 0 {
                root.missing.iter().for_each(|path| remove(path));
            }
        });
    }

    fn each(&self, act: impl Fn(&mut Root)) {
        let mut roots = self.roots.lock();
        for folder in &self.folders {
            if let Some(root) = roots.get_mut(folder) {
                act(root);
            }
        }
    }
}

fn remove(path: &Path) {
    if std::fs::remove_dir(path).is_ok() {
        tracing::debug!(path = %path.display(), "an empty folder of the sandbox was removed");
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        self.remove();
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
        let roots = Arc::<Roots>::default();
        let mut leftovers = roots.watch(one(folder.path()));
        for name in [".git", ".codex", "src"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path(".codex").join("config.toml"), "").unwrap();
        fs::write(path(".agents"), "a file").unwrap();
        leftovers.remove();
        assert!(!path(".git").exists());
        for name in [".aws", ".codex", ".agents", "src"] {
            assert!(path(name).exists(), "{name}");
        }
    }

    #[test]
    fn the_last_one_takes_away_what_another_may_stand_on() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        let roots = Arc::<Roots>::default();
        let mut one_of_two = roots.watch(one(folder.path()));
        one_of_two.begin();
        fs::create_dir(&git).unwrap();
        // It comes while the first one's command stands on it.
        let mut other = roots.watch(one(folder.path()));
        other.begin();
        one_of_two.remove();
        drop(one_of_two);
        assert!(git.exists());
        other.end();
        assert!(git.exists(), "nothing was interrupted");
        drop(other);
        assert!(!git.exists());
        assert!(roots.lock().is_empty());
        fs::create_dir(&git).unwrap();
        drop(roots.watch(one(folder.path())));
        assert!(git.exists(), "now it was there before");
    }

    #[test]
    fn every_folder_that_can_be_written_in() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let set = |value: &Path| [("TMPDIR".into(), value.as_os_str().to_owned())].into();
        let roots = writable(&real, &set(&real.join(".")));
        assert_eq!(roots, [real.clone(), "/tmp".into()].into());
        let other = real.join("other");
        assert!(writable(&real, &set(&other)).contains(&other));
        assert_eq!(writable(&real, &set(Path::new("relative"))).len(), 2);
    }
}
