//! How a frontend gets from a profile's name to a launch specification, without knowing where
//! profiles are written down.

use std::{path::PathBuf, sync::Arc};

use super::BoxFuture;
use crate::model::{Failure, Mode, SessionSpec};

pub trait Profiles: Send + Sync + 'static {
    /// The specification for a new session. `Err` says which part of the wish cannot be had.
    fn spec(&self, wanted: Wanted) -> BoxFuture<'_, Result<SessionSpec, Failure>>;

    fn list(&self) -> Vec<ProfileSummary>;
}

/// What a caller may choose; the profile says the rest.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub profile: Option<Arc<str>>,
    /// Instead of a profile: the plain settings of an executor.
    pub target: Option<Target>,
    /// A directory asked for by name; wins over the profile's.
    pub cwd: Option<PathBuf>,
    /// Where the caller is, if it is anywhere; for profiles that do not say where they work.
    pub caller_cwd: Option<PathBuf>,
    pub model: Option<Arc<str>>,
    /// The owner sits at a terminal: what `trust: auto` asks for.
    pub at_terminal: bool,
}

/// A kind of agent in a mode, as its own defaults describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
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
