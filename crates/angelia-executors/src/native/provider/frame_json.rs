//! Reads the JSON of a frame. Servers pass on what a model produced: half of a surrogate pair, a
//! raw control character, a `NaN`. Such a detail must not cost us the whole frame.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::RawJson;
use angelia_wire::near_json;
use serde_json::value::{RawValue, to_raw_value};

use super::ProviderEvent;

/// Passes a frame to `read`, repaired if it cannot be read as it is. Returns whether it was read.
/// `read` must have no effect before it has parsed the text, because it may be called twice.
pub(super) fn read_frame(
    data: &str,
    mut read: impl FnMut(&str) -> Result<(), serde_json::Error>,
) -> bool {
    // Repair surrogates in every frame: the lenient types skip a string that they cannot read, so
    // there would be no error.
    let repaired = near_json::repair(data.as_bytes());
    let text = std::str::from_utf8(&repaired).unwrap_or(data);
    read(text).is_ok() || read(&mend(text)).is_ok()
}

/// Returns the event for a frame that has no other.
pub(super) fn unknown_frame(name: &str, data: &str) -> ProviderEvent {
    let parsed = RawValue::from_string(data.to_owned());
    let raw = parsed.or_else(|_| to_raw_value(data)).map_or_else(|_| null(), RawJson::from);
    ProviderEvent::Unknown { name: name.into(), raw }
}

fn null() -> RawJson {
    Arc::from(RawValue::NULL.to_owned())
}

/// Escapes raw control characters in strings, and replaces numbers that JSON does not have, such as
/// `NaN`, with `null`.
fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut in_string = false;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let mut taken = character.len_utf8();
        match character {
            '"' => {
                in_string = !in_string;
                out.push('"');
            }
            '\\' if in_string => {
                taken += rest[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..taken]);
            }
            control if in_string && control < ' ' => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => match not_a_number(rest).filter(|_| !in_string) {
                Some(length) => {
                    taken = length;
                    out.push_str("null");
                }
                None => out.push(other),
            },
        }
        rest = &rest[taken..];
    }
    out
}

/// Returns the length of such a number at the start of a text.
fn not_a_number(text: &str) -> Option<usize> {
    const WORDS: [&str; 5] = ["NaN", "nan", "-Infinity", "Infinity", "-NaN"];
    WORDS.iter().find(|word| text.starts_with(**word)).map(|word| word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(data: &str) -> Option<serde_json::Value> {
        let mut value = None;
        read_frame(data, |text| {
            value = Some(serde_json::from_str(text)?);
            Ok(())
        });
        value
    }

    #[test]
    fn what_is_not_quite_json_is_read() {
        let table = [
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            ("{\"a\":\"x\ty\u{1}\"}", r#"{"a":"x\ty\u0001"}"#),
            (r#"{"a":NaN,"b":[-Infinity,Infinity]}"#, r#"{"a":null,"b":[null,null]}"#),
            ("{\"a\":\"NaN \\\" NaN\t\",\"b\":NaN}", r#"{"a":"NaN \" NaN\t","b":null}"#),
        ];
        for (given, expected) in table {
            assert_eq!(parse(given), serde_json::from_str(expected).ok(), "{given}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_kept() {
        for data in ["", "not json", "{\"a\":", "\\"] {
            assert_eq!(parse(data), None);
            let ProviderEvent::Unknown { raw, .. } = unknown_frame("x", data) else { panic!() };
            assert_eq!(serde_json::from_str::<String>(raw.get()).unwrap(), data);
        }
    }
}
