//! What is launched for a request: the specification of what its model id means, with the request's
//! own prompt, tools and form.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::{
    engine::EngineError,
    model::{LaunchFingerprint, Mode, RawJson, SessionSpec, SystemPrompt},
    ports::Capabilities,
};
use serde_json::value::RawValue;

use super::{Ask, DialectError, ErrorKind, Output, Refused, ToolChoice, target::Meant};
use crate::http::ApiState;

/// Any JSON object.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

#[derive(Debug)]
pub(super) struct Launch {
    pub(super) spec: SessionSpec,
    pub(super) can: Capabilities,
}

impl Launch {
    pub(super) async fn of(
        state: &ApiState,
        ask: &Ask,
        meant: &Meant,
    ) -> Result<Self, DialectError> {
        let mut spec = state.profiles.spec(meant.wanted.clone()).await?;
        let can = capabilities(state, &spec)?;
        if spec.mode == Mode::Model && !can.model_mode {
            let message = format!("`{}` has no model mode", spec.executor);
            return Err(Refused::new(message).at("model").into());
        }
        if ask.tool_choice != ToolChoice::None && can.caller_tools {
            spec.caller_tools.clone_from(&ask.tools);
        }
        let must_call = matches!(ask.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        if must_call && spec.caller_tools.is_empty() {
            let message = format!("`{}` cannot be made to call a tool", ask.model);
            return Err(Refused::new(message).at("tool_choice").into());
        }
        let schema = schema(&ask.output);
        let mut system = ask.system.as_deref().unwrap_or_default().to_owned();
        if let Some(schema) = &schema
            && !can.output_schema
        {
            let _infallible = write!(
                system,
                "\n\nAnswer with one JSON value and nothing else; it must fit this JSON schema:\n{schema}"
            );
        }
        spec.output_schema = schema.filter(|_| can.output_schema);
        spec.system = prompt(spec.mode, &spec.system, system.trim());
        if system.is_empty()
            && let Some(earlier) = earlier(state, ask).await?
            && earlier.mode == spec.mode
        {
            // What a conversation began with stays, unless the request says otherwise.
            spec.system = earlier.system;
        }
        Ok(Self { spec, can })
    }

    /// Does a session that was launched like this serve the request as it is?
    pub(super) fn fits(&self, other: &SessionSpec) -> bool {
        let but = ["history"];
        let mut ours = self.spec.clone();
        if ours.model.is_none() {
            // Whatever the agent has settled on.
            ours.model.clone_from(&other.model);
        }
        let ours = LaunchFingerprint::of(&ours).without(&but);
        let theirs = LaunchFingerprint::of(other).without(&but);
        match ours.difference(&theirs) {
            None => true,
            Some(component) => {
                tracing::debug!(component, "a session continues with another launch");
                false
            }
        }
    }

    /// Is it the same agent in the same place, whatever it is told?
    pub(super) fn is_akin(&self, other: &SessionSpec) -> bool {
        self.spec.executor == other.executor
            && self.spec.mode == other.mode
            && self.spec.cwd == other.cwd
    }
}

/// How the session was launched whose answer the request continues. Whether it may is not decided
/// here.
async fn earlier(state: &ApiState, ask: &Ask) -> Result<Option<SessionSpec>, DialectError> {
    let Some(previous) = ask.previous else {
        return Ok(None);
    };
    let found = async {
        let turn = state.engine.turn(previous).await?;
        state.engine.session(turn.session).await
    };
    match found.await {
        Ok(session) => Ok(Some(session.spec)),
        Err(EngineError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn capabilities(state: &ApiState, spec: &SessionSpec) -> Result<Capabilities, DialectError> {
    let executors = state.engine.executors().iter();
    let mut named = executors.filter(|one| one.name() == &*spec.executor);
    match named.next() {
        Some(executor) => Ok(executor.capabilities()),
        None => Err(DialectError::new(
            ErrorKind::UnknownModel,
            format!("there is no executor `{}` here", spec.executor),
        )),
    }
}

/// The form that is wanted, as a schema.
pub(super) fn schema(output: &Output) -> Option<RawJson> {
    match output {
        Output::Text => None,
        Output::Json => RawValue::from_string(ANY_OBJECT.to_owned()).ok().map(Into::into),
        Output::Schema(schema) => Some(Arc::clone(schema)),
    }
}

/// In model mode the request's prompt is the prompt; in agent mode it comes after the agent's own.
fn prompt(mode: Mode, profile: &SystemPrompt, system: &str) -> SystemPrompt {
    if system.is_empty() {
        return profile.clone();
    }
    match (mode, profile) {
        (Mode::Model, _) => SystemPrompt::Replace(system.into()),
        (Mode::Agent, SystemPrompt::Default) => SystemPrompt::Append(system.into()),
        (Mode::Agent, SystemPrompt::Append(first)) => {
            SystemPrompt::Append(format!("{first}\n\n{system}").into())
        }
        (Mode::Agent, SystemPrompt::Replace(first)) => {
            SystemPrompt::Replace(format!("{first}\n\n{system}").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_replaces_in_model_mode_and_follows_in_agent_mode() {
        let append = |text: &str| SystemPrompt::Append(text.into());
        let replace = |text: &str| SystemPrompt::Replace(text.into());
        let default = SystemPrompt::Default;
        assert_eq!(prompt(Mode::Model, &replace("own"), "theirs"), replace("theirs"));
        assert_eq!(prompt(Mode::Model, &replace("own"), ""), replace("own"));
        assert_eq!(prompt(Mode::Agent, &default, "theirs"), append("theirs"));
        assert_eq!(prompt(Mode::Agent, &append("own"), "theirs"), append("own\n\ntheirs"));
        assert_eq!(prompt(Mode::Agent, &append("own"), ""), append("own"));
        assert_eq!(prompt(Mode::Agent, &default, ""), default);
    }
}
