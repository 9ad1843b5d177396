//! The names and schemas of the caller's tools, as the program sees them. Callers choose names and
//! schemas freely. The program accepts only some of them, and drops all tools if one is invalid.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap as _,
};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest as _, Sha256};

/// Matches all the caller's tools in the program's permission rules.
pub(crate) const CALLER_TOOL_PREFIX: &str = "mcp__client";

/// The longest tool name that the model's API accepts, including the prefix.
const MAX_NAME_BYTES: usize = 64;

/// Returns the name by which the model sees a caller's tool.
pub(crate) fn model_tool_name(name: &str) -> String {
    format!("{CALLER_TOOL_PREFIX}__{}", valid_tool_name(name))
}

/// Returns the name under which the tool is announced to the program: the caller's name if it is
/// valid, otherwise a deterministic replacement.
pub(crate) fn valid_tool_name(name: &str) -> Cow<'_, str> {
    const ROOM: usize = MAX_NAME_BYTES - CALLER_TOOL_PREFIX.len() - 2;
    let is_legal = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !name.is_empty() && name.len() <= ROOM && name.chars().all(is_legal) {
        return Cow::Borrowed(name);
    }
    let hash = format!("{:x}", Sha256::digest(name.as_bytes()));
    let mark = &hash[..8];
    let letters = name.chars().take(ROOM - mark.len() - 1);
    let legal = letters.map(|letter| if is_legal(letter) { letter } else { '_' });
    Cow::Owned(format!("{}_{mark}", legal.collect::<String>()))
}

/// Returns the schema with `"type": "object"`. A schema that already has this type is returned byte
/// for byte, because the model sees the order of the keys.
pub(crate) fn ensure_object_schema(schema: &RawValue) -> Cow<'_, RawValue> {
    let fields: ObjectFields<'_> = serde_json::from_str(schema.get()).unwrap_or_default();
    let is_object =
        |(name, value): &(Cow<'_, str>, &RawValue)| name == "type" && value.get() == "\"object\"";
    if fields.0.iter().any(is_object) {
        return Cow::Borrowed(schema);
    }
    match to_raw_value(&fields) {
        Ok(object) => Cow::Owned(object),
        // Serializing to memory cannot fail.
        Err(_) => Cow::Borrowed(schema),
    }
}

/// The fields of a JSON object, in order.
#[derive(Default)]
struct ObjectFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    fields.push((Cow::Owned(name), value));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(ObjectVisitor).map(Self)
    }
}

/// Writes `"type": "object"` first and drops any other `type`.
impl Serialize for ObjectFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "object")?;
        for (name, value) in self.0.iter().filter(|(name, _)| name != "type") {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_can_be_taken_is_kept() {
        assert_eq!(valid_tool_name("get_weather-2"), "get_weather-2");
        assert_eq!(model_tool_name("Bash"), "mcp__client__Bash");
        assert_eq!(model_tool_name("mcp__a__b"), "mcp__client__mcp__a__b");
    }

    #[test]
    fn any_other_becomes_one_of_its_own() {
        let long = "x".repeat(52);
        let longer = "x".repeat(53);
        let names = ["my.tool", "my:tool", "wetter für", "", &long, &longer];
        let legal: Vec<String> = names.iter().map(|name| model_tool_name(name)).collect();
        for (index, name) in legal.iter().enumerate() {
            assert!(name.len() <= MAX_NAME_BYTES, "{name}");
            assert!(
                name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter)),
                "{name}"
            );
            assert!(!legal[..index].contains(name), "{name}");
        }
        assert_eq!(valid_tool_name("my.tool"), valid_tool_name("my.tool"));
    }

    #[test]
    fn every_schema_is_an_objects() {
        let becomes = |schema: &str| {
            let raw: Box<RawValue> = serde_json::from_str(schema).unwrap();
            ensure_object_schema(&raw).get().to_owned()
        };
        let good = r#"{"b": 1, "type":"object", "a": 2}"#;
        assert_eq!(becomes(good), good);
        assert_eq!(becomes("{}"), r#"{"type":"object"}"#);
        assert_eq!(
            becomes(r#"{"z":{"b":1, "a":2},"a":[]}"#),
            r#"{"type":"object","z":{"b":1, "a":2},"a":[]}"#
        );
        assert_eq!(becomes(r#"{"type":["object","null"],"x":1}"#), r#"{"type":"object","x":1}"#);
        assert_eq!(becomes("[1]"), r#"{"type":"object"}"#);
    }
}
