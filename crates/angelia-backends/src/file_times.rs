//! Reads the change stamps of files from the file system.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use angelia_core::ports::{FileStamp, FileStamps, FileTimes};
use jiff::Timestamp;

/// More files than this are not watched: looking at them every second would take too long.
const MAX_FILES: usize = 10_000;

/// Git's own folder, whose files change even when a program only reads the repository.
const GIT_FOLDER: &str = ".git";

/// Reads the times of files, except for those in Git's own folders and in Angelia's home, which
/// changes with every turn. Symbolic links below a folder are not followed.
#[derive(Debug)]
pub struct RealFileTimes {
    home: PathBuf,
}

impl RealFileTimes {
    /// `home` is Angelia's home.
    pub fn new(home: &Path) -> Self {
        Self { home: fs::canonicalize(home).unwrap_or_else(|_| home.to_path_buf()) }
    }
}

impl FileTimes for RealFileTimes {
    fn read(&self, path: &Path) -> Result<FileStamps, String> {
        let failed = |error: &io::Error| format!("cannot look at {}: {error}", path.display());
        let mut stamps = FileStamps::new();
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(stamps),
            Err(error) => return Err(failed(&error)),
        };
        if real.starts_with(&self.home) {
            return Err(format!(
                "{} belongs to angelia and changes with every turn",
                path.display()
            ));
        }
        let metadata = fs::metadata(&real).map_err(|error| failed(&error))?;
        if !metadata.is_dir() {
            let name = path.file_name().map_or_else(|| path.to_path_buf(), PathBuf::from);
            stamps.insert(name, stamp(&metadata));
            return Ok(stamps);
        }
        let mut folders = vec![real.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                // The watched folder itself must be readable; a folder below it may be gone, or
                // unreadable for us.
                Err(error) if folder == real => return Err(failed(&error)),
                Err(_) => continue,
            };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                let place = entry.path();
                if metadata.is_dir() {
                    if entry.file_name() != GIT_FOLDER && place != self.home {
                        folders.push(place);
                    }
                } else {
                    let name = place.strip_prefix(&real).unwrap_or(&place).to_path_buf();
                    stamps.insert(name, stamp(&metadata));
                }
                if stamps.len() + folders.len() > MAX_FILES {
                    return Err(format!(
                        "{} has more than {MAX_FILES} files; watch a smaller folder",
                        path.display()
                    ));
                }
            }
        }
        Ok(stamps)
    }
}

fn stamp(metadata: &Metadata) -> FileStamp {
    let modified_at = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    FileStamp {
        modified_at: modified_at.unwrap_or_default(),
        size: metadata.len(),
        inode: metadata.ino(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_below_a_folder_and_by_themselves() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join(".angelia");
        for folder in ["src/deep", ".git/objects", ".angelia"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["src/deep/a.rs", "b.txt", ".git/index", ".angelia/state.db"] {
            fs::write(root.path().join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("/", root.path().join("link")).unwrap();
        let times = RealFileTimes::new(&home);
        let found = times.read(root.path()).unwrap();
        let names: Vec<_> = found.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, ["b.txt", "link", "src/deep/a.rs"]);
        let before = times.read(&root.path().join("b.txt")).unwrap();
        assert_eq!(before.keys().collect::<Vec<_>>(), [Path::new("b.txt")]);
        assert_eq!(before[Path::new("b.txt")], found[Path::new("b.txt")]);
        // An editor replaces a file by another of the same size.
        fs::write(root.path().join("new"), "y").unwrap();
        fs::rename(root.path().join("new"), root.path().join("b.txt")).unwrap();
        assert_ne!(times.read(&root.path().join("b.txt")).unwrap(), before);
        assert!(times.read(&root.path().join("missing")).unwrap().is_empty());
        assert!(times.read(&home.join("state.db")).unwrap_err().contains("belongs to angelia"));
    }

    #[test]
    fn too_many_files_are_refused() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..=MAX_FILES {
            fs::File::create(root.path().join(number.to_string())).unwrap();
        }
        let error = RealFileTimes::new(Path::new("/nowhere")).read(root.path()).unwrap_err();
        assert!(error.contains("watch a smaller folder"), "{error}");
    }
}
