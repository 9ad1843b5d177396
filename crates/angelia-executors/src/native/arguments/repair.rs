//! Turns the arguments of a tool call into a JSON object.

use std::{collections::BTreeSet, fmt};

use angelia_core::model::RawJson;
use serde_json::value::RawValue;

use super::near_object;

/// Usable arguments.
#[derive(Clone, Debug)]
pub struct RepairedArguments {
    /// A JSON object.
    pub object: RawJson,
    /// The mistakes that were repaired; empty if there were none.
    pub repairs: BTreeSet<RepairKind>,
}

/// A mistake that leaves only one possible meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepairKind {
    /// No text, or `null`: the call has no arguments.
    Empty,
    CodeFence,
    TrailingComma,
    MissingCloser,
    SurplusCloser,
    SingleQuotes,
    /// `True`, `False`, `None`.
    PythonWord,
    ControlCharacter,
    BadEscape,
    /// Another object followed; the first counts.
    DoubledObject,
    /// The object was inside a string.
    JsonInString,
}

impl RepairKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::CodeFence => "code_fence",
            Self::TrailingComma => "trailing_comma",
            Self::MissingCloser => "missing_closer",
            Self::SurplusCloser => "surplus_closer",
            Self::SingleQuotes => "single_quotes",
            Self::PythonWord => "python_word",
            Self::ControlCharacter => "control_character",
            Self::BadEscape => "bad_escape",
            Self::DoubledObject => "doubled_object",
            Self::JsonInString => "json_in_string",
        }
    }
}

/// Why arguments cannot be used, worded for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    #[error(
        "the arguments were cut off after {bytes} bytes, so the tool was not run; send the call again in smaller parts"
    )]
    CutOff { bytes: usize },
    #[error(
        "the arguments are {found}, not a JSON object, so the tool was not run; send an object"
    )]
    NotAnObject { found: &'static str },
    #[error(
        "the arguments are not JSON, so the tool was not run: {what} at byte {at}; send the call again"
    )]
    Malformed { at: usize, what: MalformedPart },
}

/// What is wrong in a text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedPart {
    Key,
    Colon,
    Value,
    Separator,
    Depth,
    Rest,
}

impl fmt::Display for MalformedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "a key in double quotes is expected",
            Self::Colon => "a colon is expected",
            Self::Value => "a value is expected",
            Self::Separator => "a comma or a closing bracket is expected",
            Self::Depth => "the nesting is too deep",
            Self::Rest => "there is more after the object",
        })
    }
}

/// Returns the arguments as an object. `was_cut`: the answer reached its limit or broke off, so its
/// last call is not repaired.
pub fn repair_arguments(text: &str, was_cut: bool) -> Result<RepairedArguments, ArgumentsError> {
    let cut_off = ArgumentsError::CutOff { bytes: text.len() };
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) if value.get().starts_with('{') && is_json(value.get()) => {
            return Ok(RepairedArguments {
                object: value.to_owned().into(),
                repairs: BTreeSet::new(),
            });
        }
        Ok(value) if value.get().starts_with('"') && !was_cut => {
            return inner_object(value.get());
        }
        _ if was_cut => return Err(cut_off),
        _ => {}
    }
    if text.trim().is_empty() || text.trim() == "null" {
        return repaired("{}".to_owned(), BTreeSet::from([RepairKind::Empty]), text);
    }
    let (object, repairs) = near_object::read(text)?;
    repaired(object, repairs, text)
}

/// Returns whether a text that has the form of JSON can be decoded: a lone surrogate cannot.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}

/// Reads an object that a model wrote into a string.
fn inner_object(string: &str) -> Result<RepairedArguments, ArgumentsError> {
    let is_string = ArgumentsError::NotAnObject { found: "a string" };
    let Ok(inner) = serde_json::from_str::<String>(string) else { return Err(is_string) };
    if !inner.trim_start().starts_with('{') {
        return Err(is_string);
    }
    let (object, mut repairs) = near_object::read(&inner)?;
    repairs.insert(RepairKind::JsonInString);
    repaired(object, repairs, string)
}

fn repaired(
    object: String,
    repairs: BTreeSet<RepairKind>,
    text: &str,
) -> Result<RepairedArguments, ArgumentsError> {
    // The parser should only write JSON; make sure of it.
    let malformed = ArgumentsError::Malformed { at: text.len(), what: MalformedPart::Value };
    if !is_json(&object) {
        return Err(malformed);
    }
    let object = RawValue::from_string(object).map_err(|_| malformed)?;
    Ok(RepairedArguments { object: object.into(), repairs })
}
