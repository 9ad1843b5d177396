//! Empty folders that the program's sandbox leaves in the workspace when a command is interrupted.
//! An empty `.git` there would break every tool that looks for a repository.

use std::path::{Path, PathBuf};

/// Mount points of the sandbox.
const NAMES: [&str; 4] = [".git", ".codex", ".agents", ".aws"];

/// Those that were not there when the thread was opened.
#[derive(Debug)]
pub(super) struct Leftovers(Vec<PathBuf>);

impl Leftovers {
    pub(super) fn watch(cwd: &Path) -> Self {
        let missing = NAMES
            .iter()
            .map(|name| cwd.join(name))
            .filter(|path| path.symlink_metadata().is_err());
        Self(missing.collect())
    }

    /// Removes those that are there now and hold nothing. What holds something is somebody's.
    pub(super) fn remove(&self) {
        for path in &self.0 {
            if std::fs::remove_dir(path).is_ok() {
                tracing::debug!(path = %path.display(), "an empty folder of the sandbox was removed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_new_and_empty_folders_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path(".aws")).unwrap();
        let leftovers = Leftovers::watch(folder.path());
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
}
