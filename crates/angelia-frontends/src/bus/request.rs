//! Decodes the frames of clients: one JSON object per frame, of which only the known fields are
//! read. Pure, like [`envelope`](super::envelope). Both ends of a connection use it.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The known fields of a frame as raw JSON. A frame with a repeated field is malformed, because two
/// readers might not agree on which value counts.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    pub kind: Option<&'a RawValue>,
    pub endpoint: Option<&'a RawValue>,
    pub to: Option<&'a RawValue>,
    pub from: Option<&'a RawValue>,
    pub id: Option<&'a RawValue>,
    pub ids: Option<&'a RawValue>,
    pub ts: Option<&'a RawValue>,
    pub ack: Option<&'a RawValue>,
    pub durable: Option<&'a RawValue>,
    pub prefix: Option<&'a RawValue>,
    pub token: Option<&'a RawValue>,
    pub verified: Option<&'a RawValue>,
    pub redelivered: Option<&'a RawValue>,
    pub reason: Option<&'a RawValue>,
    pub position: Option<&'a RawValue>,
    pub limit: Option<&'a RawValue>,
}

/// The `type` of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Register,
    Ping,
    ListEndpoints,
    Message,
    /// This and the following ones are not part of hermes-bus.
    Ack,
    Refuse,
    Status,
    DeadLetters,
    Resend,
    Discard,
    /// Ignored, as in hermes-bus.
    Unknown,
}

/// The frame is malformed. The connection of a client without `ack` is closed, as in hermes-bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> Fields<'a> {
    pub fn read(frame: &'a str) -> Result<Self, Malformed> {
        serde_json::from_str(frame).map_err(|_not_an_object| Malformed)
    }

    pub fn kind(&self) -> Kind {
        let Some(Ok(kind)) = self.kind.map(text) else {
            return Kind::Unknown;
        };
        match kind.as_deref() {
            Some("register") => Kind::Register,
            Some("ping") => Kind::Ping,
            Some("list_endpoints") => Kind::ListEndpoints,
            Some("message") => Kind::Message,
            Some("ack") => Kind::Ack,
            Some("refuse") => Kind::Refuse,
            Some("status") => Kind::Status,
            Some("dead_letters") => Kind::DeadLetters,
            Some("resend") => Kind::Resend,
            Some("discard") => Kind::Discard,
            _ => Kind::Unknown,
        }
    }

    fn slot(&mut self, key: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match key {
            "type" => &mut self.kind,
            "endpoint" => &mut self.endpoint,
            "to" => &mut self.to,
            "from" => &mut self.from,
            "id" => &mut self.id,
            "ids" => &mut self.ids,
            "ts" => &mut self.ts,
            "ack" => &mut self.ack,
            "durable" => &mut self.durable,
            "prefix" => &mut self.prefix,
            "token" => &mut self.token,
            "verified" => &mut self.verified,
            "redelivered" => &mut self.redelivered,
            "reason" => &mut self.reason,
            "position" => &mut self.position,
            "limit" => &mut self.limit,
            _ => return None,
        })
    }
}

pub(super) fn is_true(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| value.get() == "true")
}

pub(super) fn number(value: Option<&RawValue>) -> Option<u64> {
    value?.get().parse().ok()
}

/// Returns a scalar as text, `None` for null. Lists and objects are malformed.
pub fn text(value: &RawValue) -> Result<Option<Cow<'_, str>>, Malformed> {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'"') => {
            let inner = json.get(1..json.len() - 1).ok_or(Malformed)?;
            if inner.contains('\\') {
                let text = serde_json::from_str(json).map_err(|_bad_escape| Malformed)?;
                return Ok(Some(Cow::Owned(text)));
            }
            Ok(Some(Cow::Borrowed(inner)))
        }
        Some(b'[' | b'{') => Err(Malformed),
        _ if json == "null" => Ok(None),
        _ => Ok(Some(Cow::Borrowed(json))),
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(Key(key)) = map.next_key()? {
            match fields.slot(&key) {
                Some(Some(_)) => return Err(A::Error::custom("a field is repeated")),
                Some(slot) => *slot = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(fields)
    }
}

/// An object key, borrowed unless it contains escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Borrowed(key)))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Owned(key.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_are_found_however_they_are_written() {
        let fields = Fields::read(r#" {"ty\u0070e": "ping", "x": {"type": 1}} "#).unwrap();
        assert_eq!(fields.kind(), Kind::Ping);
        let fields = Fields::read(r#"{"type": "message", "to": 5, "id": "a\"b"}"#).unwrap();
        assert_eq!(text(fields.to.unwrap()).unwrap().as_deref(), Some("5"));
        assert_eq!(text(fields.id.unwrap()).unwrap().as_deref(), Some("a\"b"));
        assert_eq!(Fields::read("{}").unwrap().kind(), Kind::Unknown);
    }

    #[test]
    fn what_is_not_one_object_is_malformed() {
        for frame in [
            "",
            "{bad}",
            "[]",
            "null",
            "5",
            r#"{"a":1} {"a":1}"#,
            r#"{"from":"a","fr\u006fm":"b"}"#,
        ] {
            assert!(Fields::read(frame).is_err(), "{frame}");
        }
    }
}
