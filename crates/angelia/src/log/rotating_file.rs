//! A log file of limited size: `NAME`, and older files as `NAME.1`, `NAME.2` …

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    size: u64,
    max_size: u64,
    keep: u32,
    /// Whether stderr follows the file, because panics are written to stderr.
    is_stderr: bool,
}

impl RotatingFile {
    pub(super) fn open(path: &Path, max_size: u64, keep: u32, is_stderr: bool) -> io::Result<Self> {
        let file = open_to_append(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_path_buf(), file, size, max_size, keep, is_stderr })
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        if self.size > 0 && self.size + length > self.max_size && self.rotate().is_err() {
            // A log that is too large is better than none. Rotation is retried after another
            // `max_size` bytes.
            self.size = 0;
        }
        self.file.write_all(bytes)?;
        self.size += length;
        Ok(())
    }

    /// Sets the file aside and starts a new one.
    fn rotate(&mut self) -> io::Result<()> {
        if self.keep == 0 {
            fs::remove_file(&self.path)?;
        } else {
            for number in (1..self.keep).rev() {
                match fs::rename(numbered(&self.path, number), numbered(&self.path, number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(&self.path, numbered(&self.path, 1))?;
        }
        self.file = open_to_append(&self.path)?;
        self.size = 0;
        if self.is_stderr {
            rustix::stdio::dup2_stderr(&self.file)?;
        }
        Ok(())
    }
}

/// Returns the path of the file that was set aside `number` rotations ago.
pub(crate) fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut log = RotatingFile::open(&path, 10, 2, false).unwrap();
        for word in ["one 56789\n", "two\n", "three\n", "four 6789\n", "five\n"] {
            log.append(word.as_bytes()).unwrap();
        }
        assert_eq!(read(&path), "five\n");
        assert_eq!(read(&numbered(&path, 1)), "four 6789\n");
        assert_eq!(read(&numbered(&path, 2)), "two\nthree\n");
        assert!(!numbered(&path, 3).exists());
        // The next process continues where this one stopped.
        let mut log = RotatingFile::open(&path, 10, 2, false).unwrap();
        log.append(b"six 567\n").unwrap();
        assert_eq!((read(&path), read(&numbered(&path, 1))), ("six 567\n".into(), "five\n".into()));
    }

    #[test]
    fn a_line_that_is_larger_than_a_file_is_written_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut log = RotatingFile::open(&path, 4, 0, false).unwrap();
        log.append(b"longer than that\n").unwrap();
        assert_eq!(read(&path), "longer than that\n");
        log.append(b"b\n").unwrap();
        assert_eq!(read(&path), "b\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "none is kept");
    }

    #[test]
    fn a_file_that_cannot_be_put_aside_is_written_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        // A folder cannot be replaced by a file.
        fs::create_dir(numbered(&path, 1)).unwrap();
        let mut log = RotatingFile::open(&path, 4, 1, false).unwrap();
        for _ in 0..3 {
            log.append(b"line\n").unwrap();
        }
        assert_eq!(read(&path), "line\n".repeat(3));
    }
}
