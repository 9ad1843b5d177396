//! What distinguishes the programs that speak this protocol from each other: where they are, how
//! they are called, where they keep their conversations. Everything else is shared.

use std::{collections::BTreeMap, ffi::OsString, fmt, path::Path, path::PathBuf, sync::Arc};

use angelia_core::{
    model::{Failure, SessionSpec},
    ports::{BoxFuture, Capabilities, Health},
};

use super::{launch::Conversation, transcript::Transcripts, version::Features};
use crate::host::Host;

/// A program that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    pub(crate) path: PathBuf,
    pub(crate) version: Arc<str>,
    pub(crate) features: Features,
}

pub(crate) trait Program: Send + Sync + fmt::Debug + 'static {
    /// The word used in configuration, URLs and records.
    fn name(&self) -> &'static str;

    /// What people call it, for messages.
    fn title(&self) -> &'static str;

    fn capabilities(&self) -> Capabilities;

    /// Asked before every start, so it must be cheap when nothing has changed.
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

    /// Where its conversations are, if they are files we can find.
    fn transcripts(&self, environment: &BTreeMap<OsString, OsString>) -> Option<Transcripts>;
}
