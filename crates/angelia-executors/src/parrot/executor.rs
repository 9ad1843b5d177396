//! The parrot as an executor: starts our own program with a hidden subcommand, and drives it with
//! the same code as Claude Code.
//!
//! At every permission level, `!ask` and `!question` are decided by the engine's rules and by
//! people, as with any agent. `!tool` only simulates a tool call and needs no permission. Nothing
//! is ever executed.

use std::{collections::BTreeMap, ffi::OsString, future, path::Path, sync::Arc};

use angelia_core::{
    model::{Failure, SessionSpec},
    ports::{
        BoxFuture, Executor, ExecutorCapabilities, ExecutorHealth, InstalledAgent, LoginState,
    },
};

use super::VERSION;
use crate::{
    ModelIds, Registration,
    claude::{
        executor::StreamExecutor,
        launch::ConversationStart,
        program::{ProgramInstallation, StreamProgram},
        transcript::TranscriptStore,
        version::{ClaudeVersion, ProgramFeatures},
    },
    host::ExecutorHost,
};

/// The hidden subcommand of our program that runs the parrot.
pub const SUBCOMMAND: &str = "parrot";

/// The version of Claude Code whose protocol the parrot speaks. It handles text like that version,
/// or more simply.
const PROTOCOL_VERSION: &str = "2.1.325";

pub const REGISTRATION: Registration = Registration {
    agent_files: &[],
    name: "parrot",
    about: "the built-in demo: repeats what you say, works offline, needs no login",
    model_ids: ModelIds {
        vendor_prefixes: &[],
        agent_aliases: &[],
        listed_models: &["default"],
        by_provider: false,
    },
    npm: None,
    selftest: None,
    build: |host| Arc::new(StreamExecutor::new(host, Arc::new(ParrotProgram))) as Arc<dyn Executor>,
};

#[derive(Debug)]
struct ParrotProgram;

impl StreamProgram for ParrotProgram {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn title(&self) -> &'static str {
        "the parrot"
    }

    /// The parrot ignores system prompts and histories. It may claim to accept a prompt, but not to
    /// carry a history. It supports model mode because it never touches this machine.
    fn capabilities(&self) -> ExecutorCapabilities {
        ExecutorCapabilities {
            replace_prompt: true,
            append_prompt: true,
            carry_history: false,
            caller_tools: false,
            tool_choice: false,
            output_schema: false,
            images: true,
            steer: false,
            fork: true,
            resume: true,
            model_mode: true,
            iterations: false,
            delegates: false,
            memory: false,
            compact: false,
        }
    }

    fn installation<'a>(
        &'a self,
        host: &'a ExecutorHost,
        _spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Arc<ProgramInstallation>, Failure>> {
        let known = ProgramFeatures::of(ClaudeVersion::find(PROTOCOL_VERSION));
        let installation = ProgramInstallation {
            path: host.current_exe.clone(),
            version: VERSION.into(),
            features: known.unwrap_or_else(|| ProgramFeatures::from_help(None, "")),
        };
        Box::pin(future::ready(Ok(Arc::new(installation))))
    }

    fn health<'a>(
        &'a self,
        host: &'a ExecutorHost,
        _spec: &'a SessionSpec,
    ) -> BoxFuture<'a, ExecutorHealth> {
        let health = ExecutorHealth {
            installation: Some(InstalledAgent {
                path: host.current_exe.clone(),
                version: VERSION.into(),
            }),
            login: LoginState::NotNeeded,
            problem: None,
        };
        Box::pin(future::ready(health))
    }

    fn arguments(
        &self,
        spec: &SessionSpec,
        _installation: &ProgramInstallation,
        conversation: ConversationStart<'_>,
        _mcp_config: Option<&Path>,
    ) -> Result<Vec<OsString>, Failure> {
        let (option, session) = match conversation {
            ConversationStart::New(id) => ("--session-id", id.to_string()),
            ConversationStart::Resume(id) => ("--resume", id.to_owned()),
        };
        let mut arguments: Vec<OsString> = vec![SUBCOMMAND.into(), option.into(), session.into()];
        if let Some(model) = &spec.model {
            arguments.extend(["--model".into(), OsString::from(&**model)]);
        }
        Ok(arguments)
    }

    /// Returns `None`: the parrot keeps no transcripts.
    fn transcripts(&self, _environment: &BTreeMap<OsString, OsString>) -> Option<TranscriptStore> {
        None
    }
}
