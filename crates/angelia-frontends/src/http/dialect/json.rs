//! Reading a request's JSON piece by piece. What is wrong is named by its place, in the caller's
//! words: `messages.0.content`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Refused;

/// The whole body, which must be one JSON object.
pub fn body<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Refused> {
    let first = bytes.trim_ascii_start().first();
    if first.is_some_and(|first| *first != b'{') {
        // Serde would take a list for the fields in their order.
        return Err(Refused::new("the body: this must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = read(&mut json, "")?;
    json.end().map_err(|error| Refused::new(format!("the body is not one JSON value: {error}")))?;
    Ok(value)
}

/// A part of the body that was put aside until its kind was known.
pub fn part<'a, T: Deserialize<'a>>(raw: &'a RawValue, place: &str) -> Result<T, Refused> {
    read(&mut serde_json::Deserializer::from_str(raw.get()), place)
}

/// Is it an object at all?
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().trim_start().starts_with('{')
}

fn read<'a, T, R>(json: &mut serde_json::Deserializer<R>, place: &str) -> Result<T, Refused>
where
    T: Deserialize<'a>,
    R: serde_json::de::Read<'a>,
{
    serde_path_to_error::deserialize(json).map_err(|error| {
        let inner = error.path().to_string();
        let what = error.into_inner();
        if !what.is_data() {
            return Refused::new(format!("the body is not JSON: {what}"));
        }
        let what = without_position(&what.to_string());
        let place = match (place, inner.as_str()) {
            (place, "." | "") => place.to_owned(),
            ("", inner) => inner.to_owned(),
            (place, inner) => format!("{place}.{inner}"),
        };
        let place = dotted(&place);
        if place.is_empty() {
            return Refused::new(format!("the body: {what}"));
        }
        Refused::new(format!("{place}: {what}")).at(place)
    })
}

/// Lines and columns of a piece that was cut out mean nothing to the caller.
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
