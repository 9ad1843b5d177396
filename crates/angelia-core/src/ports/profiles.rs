//! Resolves the name of a profile to a launch specification, so that frontends do not depend on the
//! configuration.

use std::{path::PathBuf, sync::Arc};

use super::BoxFuture;
use crate::model::{Failure, Mode, SessionRecord, SessionSpec};

pub trait Profiles: Send + Sync + 'static {
    /// Returns the specification for a new session. `Err` names the part of the request that cannot
    /// be satisfied.
    fn resolve(&self, wanted: ProfileRequest) -> BoxFuture<'_, Result<SessionSpec, Failure>>;

    fn list(&self) -> Vec<ProfileSummary>;

    /// Returns the names of the settings in which a session differs from the current profile,
    /// because a session keeps the settings that it started with.
    fn older_settings<'a>(
        &'a self,
        _session: &'a SessionRecord,
    ) -> BoxFuture<'a, Vec<&'static str>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// The part of a request that the caller chooses. The profile decides the rest.
#[derive(Clone, Debug, Default)]
pub struct ProfileRequest {
    pub profile: Option<Arc<str>>,
    /// Instead of a profile: an executor with its default settings.
    pub target: Option<ExecutorTarget>,
    /// A directory named by the caller, which overrides the profile's.
    pub cwd: Option<PathBuf>,
    /// The caller's working directory, if it has one, used by profiles without a directory.
    pub caller_cwd: Option<PathBuf>,
    pub model: Option<Arc<str>>,
    /// Whether to use model mode, unless the profile sets a mode itself.
    pub prefers_model_mode: bool,
    /// Whether the owner is at a terminal, which decides `trust: auto`.
    pub at_terminal: bool,
}

/// An executor in a mode, with its default settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorTarget {
    pub executor: Arc<str>,
    pub mode: Mode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSummary {
    pub name: Arc<str>,
    pub executor: Arc<str>,
    pub mode: Mode,
    pub model: Option<Arc<str>>,
}
