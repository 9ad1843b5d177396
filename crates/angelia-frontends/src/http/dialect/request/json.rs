//! Parses the JSON of a request piece by piece. Errors name the offending field as the caller would
//! write it: `messages.0.content`.

use std::fmt;

use angelia_core::model::RawJson;
use angelia_wire::near_json::{JsonDefect, find_defect};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::InvalidRequest;

/// Why JSON could not be parsed into a type.
#[derive(Debug)]
pub enum JsonError {
    /// The text is not a JSON object, for this reason.
    NotAnObject(String),
    /// The value at `path`, in serde's syntax, is not JSON.
    BadJson { path: String, what: String },
    /// The value at `path`, in serde's syntax, has a wrong type or lacks a field.
    WrongData { path: String, error: serde_json::Error },
}

/// Parses the whole body, which must be one JSON object.
pub fn parse_object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, JsonError> {
    let first = bytes.trim_ascii_start().first();
    if first.is_some_and(|first| *first != b'{') {
        // Serde would accept a list as the fields in order.
        return Err(JsonError::NotAnObject("the body: this must be a JSON object".to_owned()));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = deserialize(&mut json, bytes)?;
    json.end().map_err(|error| {
        JsonError::NotAnObject(format!("the body is not one JSON value: {error}"))
    })?;
    Ok(value)
}

/// Parses the whole body of a request in a dialect, which must be one JSON object.
pub fn parse_body<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, InvalidRequest> {
    parse_object(bytes).map_err(|error| error.at(""))
}

/// Parses a part of the body that was kept raw until its type was known. `place` is its path in the
/// body.
pub fn parse_part<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    place: &str,
) -> Result<T, InvalidRequest> {
    let mut json = serde_json::Deserializer::from_str(raw.get());
    deserialize(&mut json, raw.get().as_bytes()).map_err(|error| error.at(place))
}

/// Returns a JSON literal of this program.
pub fn literal(json: &'static str) -> RawJson {
    RawValue::from_string(json.to_owned()).unwrap_or_default().into()
}

/// Returns whether the JSON value is an object.
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().trim_start().starts_with('{')
}

/// Deserializes `bytes` through `json`.
fn deserialize<'a, T, R>(
    json: &mut serde_json::Deserializer<R>,
    bytes: &[u8],
) -> Result<T, JsonError>
where
    T: Deserialize<'a>,
    R: serde_json::de::Read<'a>,
{
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        if error.is_data() {
            return JsonError::WrongData { path, error };
        }
        match find_defect(bytes) {
            Some(JsonDefect { path, what }) if path.is_empty() => {
                JsonError::NotAnObject(format!("the body is not JSON: {what}"))
            }
            Some(JsonDefect { path, what }) => JsonError::BadJson { path, what },
            // This is valid JSON that serde does not accept: a number that does not fit its type,
            // or too much nesting.
            None => JsonError::WrongData { path, error },
        }
    })
}

impl JsonError {
    /// Names the offending field below `place` as the caller would write it.
    fn at(self, place: &str) -> InvalidRequest {
        let (path, error) = match self {
            Self::NotAnObject(message) => return InvalidRequest::new(message),
            Self::BadJson { path, what } => (path, what),
            Self::WrongData { path, error } => (path, error.to_string()),
        };
        // Line and column mean nothing to the caller within an extracted part.
        let why = error.rsplit_once(" at line ").map_or(error.as_str(), |(why, _)| why);
        let field = match (place, path.as_str()) {
            (place, "." | "") => place.to_owned(),
            ("", path) => path.to_owned(),
            (place, path) => format!("{place}.{path}"),
        };
        // `messages[0].role` → `messages.0.role`
        let field = field.replace('[', ".").replace(']', "");
        if field.is_empty() {
            return InvalidRequest::new(format!("the body: {why}"));
        }
        InvalidRequest::in_field(field, why)
    }
}

/// Names the offending field in serde's syntax, as `/api` does.
impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject(message) => f.write_str(message),
            Self::BadJson { path, what } => write!(f, "{path}: {what}"),
            Self::WrongData { path, error } if path == "." => write!(f, "the body: {error}"),
            Self::WrongData { path, error } => write!(f, "{path}: {error}"),
        }
    }
}
