//! The rules in force. An edited file applies from the next message on. If an edit breaks the file,
//! the last good rules stay in force, and the owner is told the line of the error.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use angelia_core::engine::rules::Rules;
use parking_lot::Mutex;

use super::{
    file::{self, ParsedRules},
    trusted_file::check_trusted,
};

/// The limit on the size of a rules file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The rules of the first file that exists.
#[derive(Debug)]
pub struct LiveRules {
    paths: Vec<PathBuf>,
    state: Mutex<LoadedRules>,
}

#[derive(Debug, Default)]
struct LoadedRules {
    rules: Arc<Rules>,
    /// Whether the rules come from a usable file.
    are_read: bool,
    /// The version of the file that was read last, usable or not, so that an error is reported only
    /// once.
    version: Option<FileVersion>,
    /// Reports about that version that the caller has not taken yet.
    reports: Vec<RulesReport>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileVersion {
    path: PathBuf,
    modified: Option<SystemTime>,
    length: u64,
    is_file: bool,
    /// Distinguishes files that were replaced within the resolution of `modified`.
    inode: u64,
    /// Why the file is not trusted.
    problem: Option<String>,
}

/// A problem with the rules file that was found since the last message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesReport {
    pub path: PathBuf,
    pub what: String,
    /// Whether the file is unusable.
    pub broken: bool,
    /// Whether earlier rules are still in force.
    pub has_earlier: bool,
}

impl LiveRules {
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, state: Mutex::default() }
    }

    /// Returns the rules for the next message, and the reports about their file that were not
    /// returned before. The caller shows these to the owner.
    pub fn current(&self) -> (Arc<Rules>, Vec<RulesReport>) {
        let mut state = self.state.lock();
        self.refresh(&mut state);
        (Arc::clone(&state.rules), std::mem::take(&mut state.reports))
    }

    /// Returns the rules and leaves the reports for [`Self::current`].
    pub fn without_reports(&self) -> Arc<Rules> {
        let mut state = self.state.lock();
        self.refresh(&mut state);
        Arc::clone(&state.rules)
    }

    /// Returns the path of the file that the rules come from.
    pub fn path(&self) -> Option<PathBuf> {
        let mut state = self.state.lock();
        self.refresh(&mut state);
        state.version.as_ref().map(|version| version.path.clone())
    }

    /// Checks the file's metadata, and reads the file only if that has changed.
    fn refresh(&self, state: &mut LoadedRules) {
        let version = self.paths.iter().find_map(|path| file_version(path));
        if version == state.version {
            return;
        }
        state.reports = match &version {
            // A removed file counts as an edit that removes all rules.
            None => {
                (state.rules, state.are_read) = (Arc::default(), false);
                Vec::new()
            }
            Some(version) => match read_rules(version) {
                Ok(reading) => {
                    (state.rules, state.are_read) = (Arc::new(reading.rules), true);
                    let remark =
                        |what: file::RuleDiagnostic| rules_report(&version.path, &what, None);
                    reading.warnings.into_iter().map(remark).collect()
                }
                Err(what) => vec![rules_report(&version.path, &what, Some(state.are_read))],
            },
        };
        state.version = version;
    }
}

/// Creates a report. `earlier` is set if the file is unusable, and tells whether there are earlier
/// rules.
fn rules_report(path: &Path, what: &impl ToString, earlier: Option<bool>) -> RulesReport {
    RulesReport {
        path: path.to_owned(),
        what: what.to_string(),
        broken: earlier.is_some(),
        has_earlier: earlier == Some(true),
    }
}

impl std::fmt::Display for RulesReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)?;
        match (self.broken, self.has_earlier) {
            (false, _) => Ok(()),
            (true, true) => {
                f.write_str("; the earlier rules stay in force until the file is corrected")
            }
            (true, false) => f.write_str("; no rule is in force until the file is corrected"),
        }
    }
}

fn file_version(path: &Path) -> Option<FileVersion> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(path).ok()?;
    Some(FileVersion {
        path: path.to_owned(),
        modified: found.modified().ok(),
        length: found.len(),
        is_file: found.is_file(),
        inode: found.ino(),
        problem: check_trusted(path).err().map(|error| error.to_string()),
    })
}

fn read_rules(version: &FileVersion) -> Result<ParsedRules, Box<dyn std::error::Error>> {
    if let Some(problem) = &version.problem {
        return Err(io::Error::other(problem.clone()).into());
    }
    if !version.is_file {
        // Reading a named pipe would wait for its writer.
        return Err(io::Error::other("this is not a regular file").into());
    }
    if version.length > MAX_FILE_BYTES {
        let message = format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20);
        return Err(io::Error::other(message).into());
    }
    Ok(file::parse(&fs::read_to_string(&version.path)?)?)
}
