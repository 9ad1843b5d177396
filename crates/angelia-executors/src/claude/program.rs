//! What differs between the programs that speak the stream-json protocol: their paths, their
//! command lines, and the folders of their conversations. Everything else is shared.

use std::{collections::BTreeMap, ffi::OsString, fmt, path::Path, path::PathBuf, sync::Arc};

use angelia_core::{
    model::{Failure, SessionSpec},
    ports::{BoxFuture, ExecutorCapabilities, ExecutorHealth},
};

use super::{launch::ConversationStart, transcript::TranscriptStore, version::ProgramFeatures};
use crate::{
    host::ExecutorHost,
    process::{ProcessMark, confinement::Confinement},
};

/// An installed program that can be started.
#[derive(Clone, Debug)]
pub(crate) struct ProgramInstallation {
    pub(crate) path: PathBuf,
    pub(crate) version: Arc<str>,
    pub(crate) features: ProgramFeatures,
}

/// The environment with which a process starts.
#[derive(Debug)]
pub(crate) struct ProgramEnvironment {
    pub(crate) variables: BTreeMap<OsString, OsString>,
    /// The files that the process may open, if they are restricted.
    pub(crate) confinement: Option<Confinement>,
}

pub(crate) trait StreamProgram: Send + Sync + fmt::Debug + 'static {
    /// Returns the executor's name in configuration, URLs and records.
    fn name(&self) -> &'static str;

    /// Returns the product name, for messages.
    fn title(&self) -> &'static str;

    fn capabilities(&self) -> ExecutorCapabilities;

    /// Returns the installed program. Called before every start, so it must be cheap if nothing has
    /// changed.
    fn installation<'a>(
        &'a self,
        host: &'a ExecutorHost,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Arc<ProgramInstallation>, Failure>>;

    fn health<'a>(
        &'a self,
        host: &'a ExecutorHost,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, ExecutorHealth>;

    fn arguments(
        &self,
        spec: &SessionSpec,
        installation: &ProgramInstallation,
        conversation: ConversationStart<'_>,
        mcp_config: Option<&Path>,
    ) -> Result<Vec<OsString>, Failure>;

    /// Returns the environment of a session's process.
    fn environment(
        &self,
        host: &ExecutorHost,
        spec: &SessionSpec,
        mark: &ProcessMark,
    ) -> Result<ProgramEnvironment, Failure> {
        let variables = host.child_environment(spec, &[], mark)?;
        Ok(ProgramEnvironment { variables, confinement: None })
    }

    /// Returns the program's transcripts, if they are files that we can access.
    fn transcripts(&self, environment: &BTreeMap<OsString, OsString>) -> Option<TranscriptStore>;
}
