//! A project's instructions for agents: `AGENTS.md`, or `CLAUDE.md` in folders without one. They
//! are read only in directories that the owner trusts.

use std::{
    collections::HashSet,
    fmt::Write as _,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The maximum size of all instructions together, because they cost tokens in every request.
const MAX_BYTES: usize = 32 * 1024;

/// Finds the instructions of folders, and returns each of them only once.
#[derive(Debug, Default)]
pub struct Instructions {
    told: HashSet<PathBuf>,
    bytes: usize,
}

impl Instructions {
    /// Returns the instructions from the root of the repository down to `cwd`, which is a real path.
    pub fn from_root(&mut self, cwd: &Path) -> Option<String> {
        self.read(&project_folders(cwd))
    }

    /// Returns the instructions of folders between `cwd` and a file below it, except those that it
    /// has already returned.
    pub fn on_the_way(&mut self, cwd: &Path, file: &Path) -> Option<String> {
        let mut folders: Vec<&Path> = file
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(cwd) && *folder != cwd)
            .collect();
        folders.reverse();
        self.read(&folders)
    }

    fn read(&mut self, folders: &[&Path]) -> Option<String> {
        let mut text = String::new();
        for folder in folders {
            if !self.told.insert(folder.to_path_buf()) {
                continue;
            }
            let found = NAMES.iter().find_map(|name| {
                let path = folder.join(name);
                let content = read_start(&path, MAX_BYTES.saturating_sub(self.bytes))?;
                Some((path, content))
            });
            if let Some((path, content)) = found {
                self.bytes += content.len();
                let _infallible = writeln!(text, "# {}\n\n{}\n", path.display(), content.trim());
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

/// Returns the folders from the root of the repository down to `cwd`.
pub(super) fn project_folders(cwd: &Path) -> Vec<&Path> {
    let root = cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(cwd);
    let mut folders: Vec<&Path> =
        cwd.ancestors().take_while(|folder| folder.starts_with(root)).collect();
    folders.reverse();
    folders
}

/// Reads at most `limit` bytes of a text file; `None` if the file is missing or blank.
pub(super) fn read_start(path: &Path, limit: usize) -> Option<String> {
    let file =
        File::open(path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_comes_last_and_each_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let cwd = root.join("repo/app");
        fs::create_dir_all(cwd.join("src/deep")).unwrap();
        fs::create_dir(root.join("repo/.git")).unwrap();
        fs::write(root.join("AGENTS.md"), "outside").unwrap();
        fs::write(root.join("repo/AGENTS.md"), "of the repository").unwrap();
        fs::write(root.join("repo/CLAUDE.md"), "hidden by the other").unwrap();
        fs::write(cwd.join("CLAUDE.md"), "of the app").unwrap();
        fs::write(cwd.join("src/AGENTS.md"), "of the source").unwrap();
        let mut instructions = Instructions::default();
        let text = instructions.from_root(&cwd).unwrap();
        let (first, last) = (text.find("of the repository"), text.find("of the app"));
        assert!(first.unwrap() < last.unwrap(), "{text}");
        assert!(!text.contains("outside") && !text.contains("hidden"), "{text}");
        let file = cwd.join("src/deep/main.rs");
        assert!(instructions.on_the_way(&cwd, &file).unwrap().contains("of the source"));
        assert_eq!(instructions.on_the_way(&cwd, &file), None);
        assert_eq!(instructions.on_the_way(&cwd, &root.join("else/x")), None);
    }

    #[test]
    fn long_instructions_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        // A two-byte letter that does not occur in the folder's path.
        fs::write(folder.path().join("AGENTS.md"), "é".repeat(MAX_BYTES)).unwrap();
        let text = Instructions::default().from_root(folder.path()).unwrap();
        assert_eq!(text.matches('é').count(), MAX_BYTES / 2);
    }
}
