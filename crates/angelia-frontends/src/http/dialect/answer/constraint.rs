//! A constraint on the answer: a JSON schema, or a required tool call. It is checked once the
//! answer is complete, and the model may repair the answer once.

use std::{fmt, sync::Arc};

use angelia_core::model::{Content, RawJson, ToolChoice};
use serde_json::Value;

use super::{AnswerBlock, StopReason};
use crate::http::{
    ErrorKind, HttpError,
    dialect::{InvalidRequest, ModelRequest, request::output_schema},
};

/// The limit on schema errors reported to the model at once.
const MAX_SCHEMA_ERRORS: usize = 8;

#[derive(Default)]
pub(in crate::http) enum AnswerConstraint {
    #[default]
    Unconstrained,
    Schema(Box<jsonschema::Validator>),
    /// A call of this tool or, without a name, of any tool.
    ToolCall(Option<Arc<str>>),
}

impl fmt::Debug for AnswerConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unconstrained => "Unconstrained",
            Self::Schema(_) => "Schema",
            Self::ToolCall(_) => "ToolCall",
        })
    }
}

impl AnswerConstraint {
    pub(in crate::http) fn from_request(body: &ModelRequest) -> Result<Self, HttpError> {
        match &body.tool_choice {
            ToolChoice::Required => return Ok(Self::ToolCall(None)),
            ToolChoice::Named(name) => {
                if !body.tools.iter().any(|tool| tool.name == *name) {
                    let message = format!("there is no tool `{name}` in this request");
                    return Err(InvalidRequest::new(message).at("tool_choice").into());
                }
                return Ok(Self::ToolCall(Some(Arc::clone(name))));
            }
            ToolChoice::Auto | ToolChoice::None => {}
        }
        match output_schema(&body.output_format) {
            Some(schema) => Ok(Self::Schema(Box::new(compile_schema(&schema)?))),
            None => Ok(Self::Unconstrained),
        }
    }

    pub(super) const fn is_constrained(&self) -> bool {
        !matches!(self, Self::Unconstrained)
    }

    /// Returns the instruction to add to the input.
    pub(in crate::http) fn instruction(&self) -> Option<Content> {
        match self {
            Self::ToolCall(None) => {
                Some(Content::text("[Answer this by calling at least one of your tools.]"))
            }
            Self::ToolCall(Some(name)) => {
                Some(Content::text(format!("[Answer this by calling the tool `{name}`.]")))
            }
            Self::Unconstrained | Self::Schema(_) => None,
        }
    }

    /// Checks a complete answer. The error is a complaint for the model.
    pub(super) fn check(&self, blocks: &[AnswerBlock], stop: &StopReason) -> Result<(), String> {
        let mut calls = blocks.iter().filter_map(|block| match block {
            AnswerBlock::Call { name, .. } => Some(name),
            AnswerBlock::Text(_) | AnswerBlock::Reasoning(_) => None,
        });
        match self {
            Self::ToolCall(None) if calls.next().is_none() => {
                Err("You have called none of your tools. Call at least one of them now.".to_owned())
            }
            Self::ToolCall(Some(named)) if !calls.any(|name| name == named) => {
                Err(format!("You have not called the tool `{named}`. Call it now."))
            }
            Self::Unconstrained | Self::ToolCall(_) => Ok(()),
            // A tool call on the way to the answer is not the answer yet.
            Self::Schema(_) if matches!(stop, StopReason::Calls) => Ok(()),
            Self::Schema(validator) => check_schema(validator, blocks),
        }
    }

    /// Returns the error for an answer that violates the constraint even after the repair.
    pub(super) fn violation_error(complaint: &str) -> HttpError {
        HttpError::new(
            ErrorKind::Unmet,
            format!("the answer broke the request's constraints twice; at last: {complaint}"),
        )
        .with_hint("simplify the schema or the tool choice, or use a larger model")
    }
}

fn compile_schema(schema: &RawJson) -> Result<jsonschema::Validator, HttpError> {
    let bad = |error: String| {
        let message = format!("the output schema is not a JSON schema: {error}");
        HttpError::from(InvalidRequest::new(message))
    };
    let schema: Value =
        serde_json::from_str(schema.get()).map_err(|error| bad(error.to_string()))?;
    jsonschema::validator_for(&schema).map_err(|error| bad(error.to_string()))
}

fn check_schema(validator: &jsonschema::Validator, blocks: &[AnswerBlock]) -> Result<(), String> {
    let text: String = blocks
        .iter()
        .map(|block| match block {
            AnswerBlock::Text(text) => &**text,
            AnswerBlock::Reasoning(_) | AnswerBlock::Call { .. } => "",
        })
        .collect();
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        format!("Your answer is not JSON ({error}). Answer again with one JSON value that fits the schema, and nothing else.")
    })?;
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .take(MAX_SCHEMA_ERRORS)
        .map(|error| format!("- {error} (at `{}`)", error.instance_path()))
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!(
        "Your answer does not fit the schema:\n{}\nAnswer again with one JSON value that fits it, and nothing else.",
        errors.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::dialect::OutputFormat;
    use angelia_core::model::{CallerTool, ToolId};

    fn raw(json: &str) -> RawJson {
        serde_json::from_str(json).unwrap()
    }

    fn ask(output: OutputFormat, tool_choice: ToolChoice) -> ModelRequest {
        ModelRequest {
            model: "m".into(),
            system: None,
            messages: Vec::new(),
            tools: vec![CallerTool {
                name: "f".into(),
                description: "".into(),
                input_schema: raw("{}"),
            }],
            tool_choice,
            output_format: output,
            max_tokens: None,
            stop_words: Vec::new(),
            stream: false,
            previous_turn: None,
            is_utility: false,
        }
    }

    fn text(text: &str) -> Vec<AnswerBlock> {
        vec![AnswerBlock::Text(text.into())]
    }

    fn call(name: &str) -> Vec<AnswerBlock> {
        vec![AnswerBlock::Call { id: ToolId::new("1"), name: name.into(), input: raw("{}") }]
    }

    #[test]
    fn a_form_is_checked() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#;
        let demand = AnswerConstraint::from_request(&ask(
            OutputFormat::Schema(raw(schema)),
            ToolChoice::Auto,
        ))
        .unwrap();
        let check = |answer: &str| demand.check(&text(answer), &StopReason::EndTurn);
        assert_eq!(check(r#"{"a": 1}"#), Ok(()));
        assert!(check("{}").unwrap_err().contains("\"a\" is a required property"));
        assert!(check("Sure! {}").unwrap_err().contains("not JSON"));
        assert_eq!(demand.check(&call("f"), &StopReason::Calls), Ok(()));

        let any =
            AnswerConstraint::from_request(&ask(OutputFormat::Json, ToolChoice::Auto)).unwrap();
        assert_eq!(any.check(&text(r#"{"b":[]}"#), &StopReason::EndTurn), Ok(()));
        assert!(any.check(&text("[]"), &StopReason::EndTurn).is_err());

        let bad = AnswerConstraint::from_request(&ask(
            OutputFormat::Schema(raw(r#"{"type":7}"#)),
            ToolChoice::Auto,
        ));
        assert_eq!(bad.unwrap_err().kind, ErrorKind::Refused);
    }

    #[test]
    fn a_call_is_checked() {
        let any =
            AnswerConstraint::from_request(&ask(OutputFormat::Text, ToolChoice::Required)).unwrap();
        assert_eq!(any.check(&call("g"), &StopReason::Calls), Ok(()));
        assert!(any.check(&text("no"), &StopReason::EndTurn).is_err());
        let named =
            AnswerConstraint::from_request(&ask(OutputFormat::Text, ToolChoice::Named("f".into())))
                .unwrap();
        assert_eq!(named.check(&call("f"), &StopReason::Calls), Ok(()));
        assert!(named.check(&call("g"), &StopReason::Calls).is_err());
        let none =
            AnswerConstraint::from_request(&ask(OutputFormat::Text, ToolChoice::Named("h".into())));
        assert_eq!(none.unwrap_err().kind, ErrorKind::Refused);
        let nothing =
            AnswerConstraint::from_request(&ask(OutputFormat::Text, ToolChoice::Auto)).unwrap();
        assert_eq!(nothing.check(&text("anything"), &StopReason::EndTurn), Ok(()));
    }
}
