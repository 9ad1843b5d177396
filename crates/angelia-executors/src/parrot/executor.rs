//! The parrot as a kind of agent: our own program, started again with its hidden subcommand, and
//! driven by what drives every program of this protocol.
//!
//! Permissions, at every level: what `!ask` and `!question` ask is decided by the engine's rules
//! and by people, as with any agent; `!tool` is a show and asks nobody. Nothing ever happens.

use std::{collections::BTreeMap, ffi::OsString, future, path::Path, sync::Arc};

use angelia_core::{
    model::{Failure, SessionSpec},
    ports::{BoxFuture, Capabilities, Executor, Health, Installed, Login},
};

use super::speech::VERSION;
use crate::{
    ModelIds, Registration,
    claude::{
        executor::StreamExecutor,
        launch::Conversation,
        program::{Installation, Program},
        transcript::Transcripts,
        version::{Features, Version},
    },
    host::Host,
};

/// The hidden subcommand.
pub const SUBCOMMAND: &str = "parrot";

/// The parrot treats text as this version of the protocol's own program does, or more simply.
const PROTOCOL: &str = "2.1.325";

pub const REGISTRATION: Registration = Registration {
    name: "parrot",
    about: "the built-in demo: repeats what you say, works offline, needs no login",
    model_ids: ModelIds { bare: &[], agent_words: &[], listed: &["default"] },
    build: |host| Arc::new(StreamExecutor::new(host, Arc::new(Parrot))) as Arc<dyn Executor>,
};

#[derive(Debug)]
struct Parrot;

impl Program for Parrot {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn title(&self) -> &'static str {
        "the parrot"
    }

    /// It has no prompt and no memory, so whatever of those it is given changes nothing: it takes
    /// a prompt, but cannot claim to carry a history. It never touches this machine.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            replace_prompt: true,
            append_prompt: true,
            carry_history: false,
            caller_tools: false,
            output_schema: false,
            images: true,
            steer: false,
            fork: true,
            resume: true,
            model_mode: true,
        }
    }

    fn installation<'a>(
        &'a self,
        host: &'a Host,
        _spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Arc<Installation>, Failure>> {
        let known = Features::of(Version::find(PROTOCOL));
        let installation = Installation {
            path: host.current_exe.clone(),
            version: VERSION.into(),
            features: known.unwrap_or_else(|| Features::from_help(None, "")),
        };
        Box::pin(future::ready(Ok(Arc::new(installation))))
    }

    fn health<'a>(&'a self, host: &'a Host, _spec: &'a SessionSpec) -> BoxFuture<'a, Health> {
        let health = Health {
            installed: Some(Installed { path: host.current_exe.clone(), version: VERSION.into() }),
            login: Login::NotNeeded,
            problem: None,
        };
        Box::pin(future::ready(health))
    }

    fn arguments(
        &self,
        spec: &SessionSpec,
        _installation: &Installation,
        conversation: Conversation<'_>,
        _mcp_config: Option<&Path>,
    ) -> Result<Vec<OsString>, Failure> {
        let (option, session) = match conversation {
            Conversation::New(id) => ("--session-id", id.to_string()),
            Conversation::Resume(id) => ("--resume", id.to_owned()),
        };
        let mut arguments: Vec<OsString> = vec![SUBCOMMAND.into(), option.into(), session.into()];
        if let Some(model) = &spec.model {
            arguments.extend(["--model".into(), OsString::from(&**model)]);
        }
        Ok(arguments)
    }

    /// It keeps none.
    fn transcripts(&self, _environment: &BTreeMap<OsString, OsString>) -> Option<Transcripts> {
        None
    }
}
