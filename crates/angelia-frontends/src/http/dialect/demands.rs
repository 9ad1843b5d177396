//! A constraint on the answer: a JSON schema, or a required tool call. It is checked once the
//! answer is complete; the model may repair it once.

use std::{fmt, sync::Arc};

use angelia_core::model::{Content, RawJson};
use serde_json::Value;

use super::{Ask, DialectError, ErrorKind, Refused, Stop, ToolChoice, WholeBlock, launch};

/// The maximum number of schema errors reported to the model at once.
const COMPLAINTS: usize = 8;

#[derive(Default)]
pub(super) enum Demand {
    #[default]
    Nothing,
    Form(Box<jsonschema::Validator>),
    /// A tool call; of this tool, if one is named.
    Call(Option<Arc<str>>),
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Unconstrained",
            Self::Form(_) => "Schema",
            Self::Call(_) => "ToolCall",
        })
    }
}

impl Demand {
    pub(super) fn of(ask: &Ask) -> Result<Self, DialectError> {
        match &ask.tool_choice {
            ToolChoice::Required => return Ok(Self::Call(None)),
            ToolChoice::Named(name) => {
                if !ask.tools.iter().any(|tool| tool.name == *name) {
                    let message = format!("there is no tool `{name}` in this request");
                    return Err(Refused::new(message).at("tool_choice").into());
                }
                return Ok(Self::Call(Some(Arc::clone(name))));
            }
            ToolChoice::Auto | ToolChoice::None => {}
        }
        match launch::schema(&ask.output) {
            Some(schema) => Ok(Self::Form(Box::new(validator(&schema)?))),
            None => Ok(Self::Nothing),
        }
    }

    pub(super) const fn is_one(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Returns the instruction that is added to the input.
    pub(super) fn instruction(&self) -> Option<Content> {
        match self {
            Self::Call(None) => {
                Some(Content::text("[Answer this by calling at least one of your tools.]"))
            }
            Self::Call(Some(name)) => {
                Some(Content::text(format!("[Answer this by calling the tool `{name}`.]")))
            }
            Self::Nothing | Self::Form(_) => None,
        }
    }

    /// Checks a complete answer. The error is a complaint for the model.
    pub(super) fn check(&self, blocks: &[WholeBlock], stop: &Stop) -> Result<(), String> {
        let mut calls = blocks.iter().filter_map(|block| match block {
            WholeBlock::Call { name, .. } => Some(name),
            WholeBlock::Text(_) | WholeBlock::Reasoning(_) => None,
        });
        match self {
            Self::Call(None) if calls.next().is_none() => {
                Err("You have called none of your tools. Call at least one of them now.".to_owned())
            }
            Self::Call(Some(named)) if !calls.any(|name| name == named) => {
                Err(format!("You have not called the tool `{named}`. Call it now."))
            }
            Self::Nothing | Self::Call(_) => Ok(()),
            // A tool call on the way to the answer is not the answer yet.
            Self::Form(_) if matches!(stop, Stop::Calls) => Ok(()),
            Self::Form(validator) => fits(validator, blocks),
        }
    }

    /// Returns the error for an answer that violates the constraint even after its repair.
    pub(super) fn unmet(complaint: &str) -> DialectError {
        DialectError::new(
            ErrorKind::Unmet,
            format!("the answer broke the request's constraints twice; at last: {complaint}"),
        )
        .with_hint("simplify the schema or the tool choice, or use a larger model")
    }
}

fn validator(schema: &RawJson) -> Result<jsonschema::Validator, DialectError> {
    let bad = |error: String| {
        let message = format!("the output schema is not a JSON schema: {error}");
        DialectError::from(Refused::new(message))
    };
    let schema: Value =
        serde_json::from_str(schema.get()).map_err(|error| bad(error.to_string()))?;
    jsonschema::validator_for(&schema).map_err(|error| bad(error.to_string()))
}

fn fits(validator: &jsonschema::Validator, blocks: &[WholeBlock]) -> Result<(), String> {
    let text: String = blocks
        .iter()
        .map(|block| match block {
            WholeBlock::Text(text) => &**text,
            WholeBlock::Reasoning(_) | WholeBlock::Call { .. } => "",
        })
        .collect();
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        format!("Your answer is not JSON ({error}). Answer again with one JSON value that fits the schema, and nothing else.")
    })?;
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .take(COMPLAINTS)
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
    use crate::http::dialect::Output;
    use angelia_core::model::{CallerTool, ToolId};

    fn raw(json: &str) -> RawJson {
        serde_json::from_str(json).unwrap()
    }

    fn ask(output: Output, tool_choice: ToolChoice) -> Ask {
        Ask {
            model: "m".into(),
            system: None,
            messages: Vec::new(),
            tools: vec![CallerTool {
                name: "f".into(),
                description: "".into(),
                input_schema: raw("{}"),
            }],
            tool_choice,
            output,
            max_tokens: None,
            stop: Vec::new(),
            stream: false,
            previous: None,
            is_utility: false,
        }
    }

    fn text(text: &str) -> Vec<WholeBlock> {
        vec![WholeBlock::Text(text.into())]
    }

    fn call(name: &str) -> Vec<WholeBlock> {
        vec![WholeBlock::Call { id: ToolId::new("1"), name: name.into(), input: raw("{}") }]
    }

    #[test]
    fn a_form_is_checked() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#;
        let demand = Demand::of(&ask(Output::Schema(raw(schema)), ToolChoice::Auto)).unwrap();
        let check = |answer: &str| demand.check(&text(answer), &Stop::EndTurn);
        assert_eq!(check(r#"{"a": 1}"#), Ok(()));
        assert!(check("{}").unwrap_err().contains("\"a\" is a required property"));
        assert!(check("Sure! {}").unwrap_err().contains("not JSON"));
        assert_eq!(demand.check(&call("f"), &Stop::Calls), Ok(()));

        let any = Demand::of(&ask(Output::Json, ToolChoice::Auto)).unwrap();
        assert_eq!(any.check(&text(r#"{"b":[]}"#), &Stop::EndTurn), Ok(()));
        assert!(any.check(&text("[]"), &Stop::EndTurn).is_err());

        let bad = Demand::of(&ask(Output::Schema(raw(r#"{"type":7}"#)), ToolChoice::Auto));
        assert_eq!(bad.unwrap_err().kind, ErrorKind::Refused);
    }

    #[test]
    fn a_call_is_checked() {
        let any = Demand::of(&ask(Output::Text, ToolChoice::Required)).unwrap();
        assert_eq!(any.check(&call("g"), &Stop::Calls), Ok(()));
        assert!(any.check(&text("no"), &Stop::EndTurn).is_err());
        let named = Demand::of(&ask(Output::Text, ToolChoice::Named("f".into()))).unwrap();
        assert_eq!(named.check(&call("f"), &Stop::Calls), Ok(()));
        assert!(named.check(&call("g"), &Stop::Calls).is_err());
        let none = Demand::of(&ask(Output::Text, ToolChoice::Named("h".into())));
        assert_eq!(none.unwrap_err().kind, ErrorKind::Refused);
        let nothing = Demand::of(&ask(Output::Text, ToolChoice::Auto)).unwrap();
        assert_eq!(nothing.check(&text("anything"), &Stop::EndTurn), Ok(()));
    }
}
