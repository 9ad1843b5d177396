//! The differences between the programs that speak the stream-json protocol: where they are, how
//! they are started, where they keep their conversations. Everything else is shared.

use std::{collections::BTreeMap, ffi::OsString, fmt, path::Path, path::PathBuf, sync::Arc};

use angelia_core::{
    model::{Failure, SessionSpec},
    ports::{BoxFuture, Capabilities, Health},
};

use super::{launch::Conversation, transcript::Transcripts, version::Features};
use crate::host::Host;

/// An installed program that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    pub(crate) path: PathBuf,
    pub(crate) version: Arc<str>,
    pub(crate) features: Features,
}

pub(crate) trait Program: Send + Sync + fmt::Debug + 'static {
    /// Returns the executor's name in configuration, URLs and records.
    fn name(&self) -> &'static str;

    /// Returns the product name, for messages.
    fn title(&self) -> &'static str;

    fn capabilities(&self) -> Capabilities;

    /// Returns the installed program. Called before every start, so it must be cheap when nothing
    /// has changed.
    fn installation<'a>(
        &'a self,
        host: &'a Host,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Arc<Installation>, Failure>>;

    fn health<'a>(&'a self, host: &'a Host, spec: &'a SessionSpec) -> BoxFuture<'a, Health>;

    fn arguments(
        &self,
        spec: &SessionSpec,
        installation: &Installation,
        conversation: Conversation<'_>,
        mcp_config: Option<&Path>,
    ) -> Result<Vec<OsString>, Failure>;

    /// Returns the program's transcripts, if they are files that we can access.
    fn transcripts(&self, environment: &BTreeMap<OsString, OsString>) -> Option<Transcripts>;
}
