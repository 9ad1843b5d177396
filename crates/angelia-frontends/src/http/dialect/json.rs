//! Parses the JSON of a request piece by piece. Errors name the offending field as the caller would
//! write it: `messages.0.content`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::InvalidRequest;

/// Parses the whole body, which must be one JSON object.
pub fn parse_body<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, InvalidRequest> {
    let first = bytes.trim_ascii_start().first();
    if first.is_some_and(|first| *first != b'{') {
        // Serde would accept a list as the fields in order.
        return Err(InvalidRequest::new("the body: this must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = deserialize_at(&mut json, "")?;
    json.end()
        .map_err(|error| InvalidRequest::new(format!("the body is not one JSON value: {error}")))?;
    Ok(value)
}

/// Parses a part of the body that was kept raw until its type was known. `place` is its path in the
/// body.
pub fn parse_part<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    place: &str,
) -> Result<T, InvalidRequest> {
    deserialize_at(&mut serde_json::Deserializer::from_str(raw.get()), place)
}

/// Returns whether the JSON value is an object.
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().trim_start().starts_with('{')
}

fn deserialize_at<'a, T, R>(
    json: &mut serde_json::Deserializer<R>,
    place: &str,
) -> Result<T, InvalidRequest>
where
    T: Deserialize<'a>,
    R: serde_json::de::Read<'a>,
{
    serde_path_to_error::deserialize(json).map_err(|error| {
        let inner = error.path().to_string();
        let what = error.into_inner();
        if !what.is_data() {
            return InvalidRequest::new(format!("the body is not JSON: {what}"));
        }
        let what = without_position(&what.to_string());
        let place = match (place, inner.as_str()) {
            (place, "." | "") => place.to_owned(),
            ("", inner) => inner.to_owned(),
            (place, inner) => format!("{place}.{inner}"),
        };
        let place = dotted(&place);
        if place.is_empty() {
            return InvalidRequest::new(format!("the body: {what}"));
        }
        InvalidRequest::new(format!("{place}: {what}")).at(place)
    })
}

/// Removes the line and column from an error: within a part that was cut out they mean nothing to
/// the caller.
fn without_position(what: &str) -> String {
    match what.rsplit_once(" at line ") {
        Some((what, _)) => what.to_owned(),
        None => what.to_owned(),
    }
}

/// `messages[0].role` → `messages.0.role`
fn dotted(place: &str) -> String {
    place.replace('[', ".").replace(']', "")
}
