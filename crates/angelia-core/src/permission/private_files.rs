//! The files that tools leave out when they search folders. Reading one of them needs a person's
//! approval, and a search does not ask about each file.

use std::{path::PathBuf, sync::Arc};

use super::protected::{Touch, Toucher, find_protection};
use crate::{model::SessionId, ports::KnownPlaces};

/// Credentials and `$ANGELIA_HOME`, except the session's own files.
#[derive(Clone, Debug)]
pub struct PrivateFiles {
    pub session: SessionId,
    pub profile: Arc<str>,
    /// The session's directory as a real path.
    pub cwd: PathBuf,
    pub places: KnownPlaces,
}

impl PrivateFiles {
    /// Whether reading this real path needs a person.
    pub fn contains(&self, real: &std::path::Path) -> bool {
        let by = Toucher {
            session: self.session,
            profile: &self.profile,
            cwd: &self.cwd,
            places: &self.places,
        };
        find_protection(real, Touch::Read, &by).is_some()
    }
}
