//! Claude Code, driven over its stream-json protocol. It is the vendor's own unmodified program
//! with its own login.
//!
//! - `program`: what differs between the programs that speak this protocol.
//! - `locate`, `version`, `probe`: the program's path, its version and its login.
//! - `launch`: turns a specification into arguments, variables and the first request. Pure.
//! - `sealed`: the environment of model mode: the owner's login, and nothing else of the owner's.
//! - `start`: starts the program and waits for its first response.
//! - `account`: the billing lane.
//! - `transcript`: the program's own conversation files, and histories imported through them.
//! - [`protocol`]: the wire types of both directions. [`translate`]: turns lines into events. Pure.
//! - `context_window`, `failure`, `tool`, `usage`: parts of the translation.
//! - `permission`: permission requests and reported tool calls, with `access` (the paths and the
//!   command of a call), `edits` (its changes), `suggested_rules` and `questions`.
//! - `agent`, `turn`: the running program and its turns.
//! - `caller_tools`, `caller_tool_names`: the caller's tools, which we serve as an MCP server.
//! - `escape`: keeps untrusted text from triggering commands and file mentions.
//! - [`selftest`]: the setup for a scripted model.
//! - `executor`: implements the executor port.

mod access;
mod account;
mod agent;
mod caller_tool_names;
mod caller_tools;
mod context_window;
mod edits;
pub(crate) mod escape;
pub(crate) mod executor;
mod failure;
pub(crate) mod launch;
mod locate;
mod past_conversations;
mod permission;
pub(crate) mod probe;
pub(crate) mod program;
pub mod protocol;
mod questions;
mod sealed;
pub mod selftest;
pub(crate) mod start;
mod suggested_rules;
mod tool;
pub(crate) mod transcript;
pub mod translate;
mod turn;
mod usage;
pub(crate) mod version;

use std::{collections::BTreeMap, ffi::OsString, path::Path, sync::Arc};

use angelia_core::{
    model::{Failure, Mode, SessionSpec},
    ports::{BoxFuture, Executor, ExecutorCapabilities, ExecutorHealth},
};

use self::{
    executor::StreamExecutor,
    launch::ConversationStart,
    probe::ClaudeProber,
    program::{ProgramEnvironment, ProgramInstallation, StreamProgram},
    transcript::TranscriptStore,
};
use crate::{ModelIds, Registration, host::ExecutorHost, process::ProcessMark};

pub const REGISTRATION: Registration = Registration {
    agent_files: &[".claude", ".claude.json"],
    name: "claude",
    about: "Claude Code, with the login it has on this machine",
    model_ids: ModelIds {
        vendor_prefixes: &["claude-"],
        agent_aliases: &["claude-cli"],
        listed_models: &["sonnet", "opus", "haiku", "default"],
        by_provider: false,
    },
    npm: Some(&locate::CLAUDE_PROGRAM),
    selftest: Some(&selftest::ClaudeSelftest),
    build: |host| {
        Arc::new(StreamExecutor::new(host, Arc::new(Claude::default()))) as Arc<dyn Executor>
    },
};

/// Claude Code itself, as opposed to other programs that speak its protocol.
#[derive(Debug, Default)]
struct Claude {
    prober: ClaudeProber,
}

impl StreamProgram for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn capabilities(&self) -> ExecutorCapabilities {
        ExecutorCapabilities {
            tool_choice: false,
            iterations: false,
            delegates: false,
            memory: false,
            compact: false,
            ..ExecutorCapabilities::ALL
        }
    }

    fn installation<'a>(
        &'a self,
        host: &'a ExecutorHost,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Arc<ProgramInstallation>, Failure>> {
        Box::pin(self.prober.installation(host, spec))
    }

    fn health<'a>(
        &'a self,
        host: &'a ExecutorHost,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, ExecutorHealth> {
        Box::pin(self.prober.health(host, spec))
    }

    fn arguments(
        &self,
        spec: &SessionSpec,
        installation: &ProgramInstallation,
        conversation: ConversationStart<'_>,
        mcp_config: Option<&Path>,
    ) -> Result<Vec<OsString>, Failure> {
        launch::arguments(spec, &installation.features, conversation, mcp_config)
    }

    fn environment(
        &self,
        host: &ExecutorHost,
        spec: &SessionSpec,
        mark: &ProcessMark,
    ) -> Result<ProgramEnvironment, Failure> {
        match spec.mode {
            Mode::Agent => Ok(ProgramEnvironment {
                variables: host.child_environment(spec, &[], mark)?,
                confinement: None,
            }),
            Mode::Model => sealed::environment(host, spec, mark),
        }
    }

    fn transcripts(&self, environment: &BTreeMap<OsString, OsString>) -> Option<TranscriptStore> {
        Some(TranscriptStore::from_environment(environment))
    }
}
