//! Builds the session specification for a request: that of its model id, with the request's own
//! prompt, tools and output format.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::{
    engine::EngineError,
    model::{Mode, RawJson, SessionSpec, SystemPrompt, ToolChoice},
    ports::ExecutorCapabilities,
};

use super::{InvalidRequest, ModelRequest, OutputFormat, json, target::ModelTarget};
use crate::http::{ApiState, ErrorKind, HttpError};

/// Builds the session specification for this request, and returns it with the capabilities of its
/// executor.
pub(super) async fn session_spec(
    state: &ApiState,
    body: &ModelRequest,
    target: ModelTarget,
) -> Result<(SessionSpec, ExecutorCapabilities), HttpError> {
    let mut spec = state.profiles.resolve(target.profile).await.map_err(HttpError::not_started)?;
    let capabilities = capabilities(state, &spec)?;
    if spec.mode == Mode::Model && !capabilities.model_mode {
        let message = format!("`{}` has no model mode", spec.executor);
        return Err(InvalidRequest::new(message).at("model").into());
    }
    let may_call = body.tool_choice != ToolChoice::None || takes_tool_choice(&spec, capabilities);
    if may_call && capabilities.caller_tools {
        spec.caller_tools.clone_from(&body.tools);
    }
    let must_call = matches!(body.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    if must_call && spec.caller_tools.is_empty() {
        let message = format!("`{}` cannot be forced to call a tool", body.model);
        return Err(InvalidRequest::new(message).at("tool_choice").into());
    }
    let schema = output_schema(&body.output_format);
    let mut system = body.system.as_deref().unwrap_or_default().to_owned();
    if let Some(schema) = &schema
        && !capabilities.output_schema
    {
        let _infallible = write!(
            system,
            "\n\nAnswer with one JSON value and nothing else; it must fit this JSON schema:\n{schema}"
        );
    }
    spec.output_schema = schema.filter(|_| capabilities.output_schema);
    spec.system = merge_prompt(spec.mode, &spec.system, system.trim());
    if system.is_empty()
        && let Some(earlier) = previous_spec(state, body).await?
        && earlier.mode == spec.mode
    {
        // A conversation keeps its original prompt, unless the request contains another.
        spec.system = earlier.system;
    }
    Ok((spec, capabilities))
}

/// Returns whether the tool choice is passed to the model itself. An agent has tools besides the
/// caller's, so it only gets an instruction.
pub(super) fn takes_tool_choice(spec: &SessionSpec, capabilities: ExecutorCapabilities) -> bool {
    capabilities.tool_choice && spec.mode == Mode::Model
}

/// Returns the specification of the session whose answer the request continues. Does not check
/// whether the caller may continue it.
async fn previous_spec(
    state: &ApiState,
    body: &ModelRequest,
) -> Result<Option<SessionSpec>, HttpError> {
    let Some(previous) = body.previous_turn else {
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

fn capabilities(state: &ApiState, spec: &SessionSpec) -> Result<ExecutorCapabilities, HttpError> {
    let mut executors = state.engine.executors().iter();
    let executor = executors.find(|one| one.name() == &*spec.executor).ok_or_else(|| {
        let message = format!("there is no executor `{}` here", spec.executor);
        HttpError::new(ErrorKind::UnknownModel, message)
    })?;
    Ok(executor.capabilities())
}

/// Returns the requested output format as a JSON schema.
pub(in crate::http) fn output_schema(output: &OutputFormat) -> Option<RawJson> {
    match output {
        OutputFormat::Text => None,
        OutputFormat::Json => Some(json::literal(r#"{"type":"object"}"#)),
        OutputFormat::Schema(schema) => Some(Arc::clone(schema)),
    }
}

/// Merges the request's system prompt into the profile's. In model mode it replaces the profile's
/// prompt; in agent mode it follows the agent's own.
fn merge_prompt(mode: Mode, profile: &SystemPrompt, system: &str) -> SystemPrompt {
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
        assert_eq!(merge_prompt(Mode::Model, &replace("own"), "theirs"), replace("theirs"));
        assert_eq!(merge_prompt(Mode::Model, &replace("own"), ""), replace("own"));
        assert_eq!(merge_prompt(Mode::Agent, &default, "theirs"), append("theirs"));
        assert_eq!(merge_prompt(Mode::Agent, &append("own"), "theirs"), append("own\n\ntheirs"));
        assert_eq!(merge_prompt(Mode::Agent, &append("own"), ""), append("own"));
        assert_eq!(merge_prompt(Mode::Agent, &default, ""), default);
    }
}
