//! The rules in force: an edited file counts from the next message on, and one that was broken by
//! the edit does not — the last good rules stay, and its owner is told the line.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use angelia_core::engine::rules::Rules;

use super::file::{self, Reading};

/// Larger files are not rules.
const LARGEST: u64 = 4 << 20;

/// One file, or the first of several that exists.
#[derive(Debug)]
pub struct LiveRules {
    paths: Vec<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Arc<Rules>,
    /// What the rules were read from; what could not be read counts too, so that it is reported
    /// once.
    version: Option<Version>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    path: PathBuf,
    modified: Option<SystemTime>,
    length: u64,
    /// A file that was replaced within the clock's grain is another file.
    inode: u64,
}

/// What became of the file since it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub path: PathBuf,
    pub what: String,
    /// The file could not be used, and what was there before is still in force.
    pub broken: bool,
}

impl LiveRules {
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, state: Mutex::default() }
    }

    /// The rules for the next message, and what there is to say about their file. A look at the
    /// file's date; it is read only when that has changed.
    pub fn current(&self) -> (Arc<Rules>, Vec<Report>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.paths.iter().find_map(|path| version(path));
        if version == state.version {
            return (Arc::clone(&state.rules), Vec::new());
        }
        let reports = match &version {
            // Taken away on purpose: that is an edit too.
            None => {
                state.rules = Arc::default();
                Vec::new()
            }
            Some(version) => match read(version) {
                Ok(reading) => {
                    state.rules = Arc::new(reading.rules);
                    let remark = |what: file::Remark| report(&version.path, &what, false);
                    reading.remarks.into_iter().map(remark).collect()
                }
                Err(what) => vec![report(&version.path, &what, true)],
            },
        };
        state.version = version;
        (Arc::clone(&state.rules), reports)
    }
}

fn report(path: &Path, what: &impl ToString, broken: bool) -> Report {
    Report { path: path.to_owned(), what: what.to_string(), broken }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)?;
        if self.broken {
            f.write_str("; the rules from before stay in force until it is corrected")?;
        }
        Ok(())
    }
}

fn version(path: &Path) -> Option<Version> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(path).ok()?;
    Some(Version {
        path: path.to_owned(),
        modified: found.modified().ok(),
        length: found.len(),
        inode: found.ino(),
    })
}

fn read(version: &Version) -> Result<Reading, Box<dyn std::error::Error>> {
    if version.length > LARGEST {
        let message = format!("it is larger than {} MiB", LARGEST >> 20);
        return Err(io::Error::other(message).into());
    }
    Ok(file::parse(&fs::read_to_string(&version.path)?)?)
}
