//! The session's directory, and the contents of files that the model has seen. A file is changed
//! only if the model has seen its current content.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};

use super::tool::CallError;
use crate::real_path::real_path;

type ContentHash = [u8; 32];

/// Returns whether a path is in a virtual file system of the kernel. Our tools run in our own
/// process, so `/proc/self` would show our environment, which contains the keys of providers.
pub(super) fn is_of_kernel(real: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder))
}

/// The files of a session, as its tools see them.
#[derive(Debug)]
pub struct Workspace {
    cwd: PathBuf,
    user_home: PathBuf,
    /// The folder of the memory, which only the `memory` tool changes.
    memory: Option<PathBuf>,
    seen: Mutex<HashMap<PathBuf, ContentHash>>,
}

impl Workspace {
    /// `cwd` is the session's directory, which must exist. `user_home` is what `~` stands for.
    pub fn new(cwd: &Path, user_home: &Path) -> std::io::Result<Self> {
        let cwd = cwd.canonicalize()?;
        Ok(Self { cwd, user_home: user_home.to_owned(), memory: None, seen: Mutex::default() })
    }

    /// Refuses changes below the folder of the memory, which is a real path.
    #[must_use]
    pub fn with_memory(self, folder: PathBuf) -> Self {
        Self { memory: Some(folder), ..self }
    }

    /// Returns the session's directory as a real path.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the real path of a path from the model. It need not exist.
    pub(super) fn resolve(&self, text: &str) -> Result<PathBuf, CallError> {
        if text.is_empty() || text.contains('\0') {
            return Err(CallError::new("the path is empty or has a NUL byte; give a file's path"));
        }
        let stated = match Path::new(text).strip_prefix("~") {
            Ok(rest) => self.user_home.join(rest),
            Err(_) => self.cwd.join(text),
        };
        let real = real_path(&stated)
            .map_err(|error| CallError::new(format!("{text} cannot be used: {error}")))?;
        if is_of_kernel(&real) {
            return Err(CallError::new(format!(
                "{text} is a file of the kernel, which only a command can open"
            )));
        }
        Ok(real)
    }

    /// Returns the real path of a file that the model wants to change.
    pub(super) fn resolve_for_change(&self, text: &str) -> Result<PathBuf, CallError> {
        let real = self.resolve(text)?;
        if self.memory.as_deref().is_some_and(|folder| real.starts_with(folder)) {
            let why = "is part of the memory, which only the tool `memory` changes";
            return Err(CallError::new(format!("{text} {why}")));
        }
        Ok(real)
    }

    /// Returns the path to show to the model and to people, relative if it is below the session's
    /// directory.
    pub(super) fn shown<'a>(&self, real: &'a Path) -> std::path::Display<'a> {
        match real.strip_prefix(&self.cwd) {
            Ok(below) if !below.as_os_str().is_empty() => below.display(),
            _ => real.display(),
        }
    }

    /// Records that the model knows this content of a file.
    pub(super) fn note_seen(&self, real: &Path, bytes: &[u8]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(real.to_owned(), Sha256::digest(bytes).into());
    }

    pub(super) fn forget(&self, real: &Path) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(real);
    }

    /// Checks that the model knows this content of a file.
    pub(super) fn check_seen(&self, real: &Path, bytes: &[u8]) -> Result<(), CallError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = self.shown(real);
        match seen.get(real) {
            Some(known) if *known == ContentHash::from(Sha256::digest(bytes)) => Ok(()),
            Some(_) => Err(CallError::new(format!(
                "{shown} has changed on disk since you read it, so nothing was written; read it \
                 again, then repeat the change"
            ))),
            None => Err(CallError::new(format!(
                "{shown} exists and you have not read it, so nothing was written; read it first, \
                 then repeat the change"
            ))),
        }
    }
}
