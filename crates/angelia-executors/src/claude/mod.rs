//! Claude Code, driven over its stream-json protocol: the vendor's own program, unmodified, with
//! its own login.
//!
//! - `program`: what distinguishes the programs that speak this protocol.
//! - `locate`, `version`, `probe`: where the program is, how old, logged in or not.
//! - `launch`: a specification becomes arguments, variables and the first request. Pure.
//! - `start`: from there to a running program that has answered.
//! - `account`: who pays.
//! - `transcript`: the program's own records, and histories carried in by them.
//! - [`protocol`]: the spellings of both directions; [`translate`]: its lines as events. Pure.
//! - `failure`, `permission`, `tool`, `usage`: parts of the translation.
//! - `agent`, `turn`: the running program and its turns.
//! - `caller_tools`: the caller's tools, for which we are an MCP server.
//! - `escape`: text from outside never acts.
//! - `executor`: all of it behind the port.

mod account;
mod agent;
mod caller_names;
mod caller_tools;
mod context;
pub(crate) mod escape;
pub(crate) mod executor;
mod failure;
pub(crate) mod launch;
mod locate;
mod permission;
pub(crate) mod probe;
pub(crate) mod program;
pub mod protocol;
pub(crate) mod start;
mod tool;
pub(crate) mod transcript;
pub mod translate;
mod turn;
mod usage;
pub(crate) mod version;

use std::{collections::BTreeMap, ffi::OsString, path::Path, sync::Arc};

use angelia_core::{
    model::{Failure, SessionSpec},
    ports::{BoxFuture, Capabilities, Executor, Health},
};

use self::{
    executor::StreamExecutor,
    launch::Conversation,
    probe::Prober,
    program::{Installation, Program},
    transcript::Transcripts,
};
use crate::{ModelIds, Registration, host::Host};

pub const REGISTRATION: Registration = Registration {
    name: "claude",
    about: "Claude Code, with the login it has on this machine",
    model_ids: ModelIds {
        bare: &["claude-"],
        agent_words: &["claude-cli"],
        listed: &["sonnet", "opus", "haiku"],
    },
    build: |host| {
        Arc::new(StreamExecutor::new(host, Arc::new(Claude::default()))) as Arc<dyn Executor>
    },
};

/// The vendor's program.
#[derive(Debug, Default)]
struct Claude {
    prober: Prober,
}

impl Program for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            replace_prompt: true,
            append_prompt: true,
            carry_history: true,
            caller_tools: true,
            output_schema: true,
            images: true,
            steer: true,
            fork: true,
            resume: true,
            model_mode: true,
        }
    }

    fn installation<'a>(
        &'a self,
        host: &'a Host,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Arc<Installation>, Failure>> {
        Box::pin(self.prober.installation(host, spec))
    }

    fn health<'a>(&'a self, host: &'a Host, spec: &'a SessionSpec) -> BoxFuture<'a, Health> {
        Box::pin(self.prober.health(host, spec))
    }

    fn arguments(
        &self,
        spec: &SessionSpec,
        installation: &Installation,
        conversation: Conversation<'_>,
        mcp_config: Option<&Path>,
    ) -> Result<Vec<OsString>, Failure> {
        launch::arguments(spec, &installation.features, conversation, mcp_config)
    }

    fn transcripts(&self, environment: &BTreeMap<OsString, OsString>) -> Option<Transcripts> {
        Some(Transcripts::of(environment))
    }
}
