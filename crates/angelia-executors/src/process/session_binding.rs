//! The file that names the session an agent works for. It is read by our own programs that the
//! agent starts. Such a program inherits only the agent's mark: a warm agent is started before its
//! session is known, so its environment cannot name the session. The session is therefore written
//! to a file named after the mark as soon as it is known.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use angelia_core::model::SessionId;

use super::mark::{OwnerId, ProcessMark};

/// Separates the owner id from the agent id in a file name; neither id can contain it.
const SEPARATOR: char = ':';

/// Records that the agent with a mark works for a session. Dropping it removes the record.
#[derive(Debug)]
pub(crate) struct SessionBinding(Option<PathBuf>);

impl SessionBinding {
    /// Writes the file. A failure is only logged: the agent still works but cannot delegate.
    pub(crate) fn new(folder: &Path, mark: &ProcessMark, session: SessionId) -> Self {
        let path = binding_path(folder, mark);
        match write_binding(folder, &path, session) {
            Ok(()) => Self(Some(path)),
            Err(error) => {
                tracing::warn!(%error, "cannot write {}", path.display());
                Self(None)
            }
        }
    }
}

impl Drop for SessionBinding {
    fn drop(&mut self) {
        if let Some(path) = self.0.take()
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::debug!(%error, "cannot remove {}", path.display());
        }
    }
}

fn binding_path(folder: &Path, mark: &ProcessMark) -> PathBuf {
    folder.join(format!("{}{SEPARATOR}{}", mark.owner, mark.agent))
}

fn write_binding(folder: &Path, path: &Path, session: SessionId) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, session.to_string().as_bytes())
}

/// Returns the session that the agent with this mark works for.
pub fn read_session(folder: &Path, mark: &ProcessMark) -> Option<SessionId> {
    let session = fs::read_to_string(binding_path(folder, mark)).ok()?;
    session.parse().ok()
}

/// Removes the files of dead owners. An owner that is killed leaves its files behind.
pub fn remove_stale_bindings(folder: &Path, is_alive: impl Fn(&OwnerId) -> bool) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split_once(SEPARATOR));
        let owner = owner.and_then(|(owner, _)| OwnerId::new(owner).ok());
        if owner.is_none_or(|owner| !is_alive(&owner)) {
            // Another process may have removed the file first.
            let _gone = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_agent_is_bound_as_long_as_it_lives() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("agents");
        let mark: ProcessMark = "home:owner:agent".parse().unwrap();
        let other: ProcessMark = "home:owner:other".parse().unwrap();
        let session = SessionId::from_uuid(Uuid::from_u128(7));
        assert_eq!(read_session(&folder, &mark), None);
        let bound = SessionBinding::new(&folder, &mark, session);
        assert_eq!(read_session(&folder, &mark), Some(session));
        assert_eq!(read_session(&folder, &other), None);
        remove_stale_bindings(&folder, |_| true);
        assert_eq!(read_session(&folder, &mark), Some(session));
        drop(bound);
        assert_eq!(read_session(&folder, &mark), None);

        std::mem::forget(SessionBinding::new(&folder, &mark, session));
        remove_stale_bindings(&folder, |_| false);
        assert_eq!(read_session(&folder, &mark), None);
    }
}
