//! Decodes the frames of clients: one JSON object per frame, of which only the known fields are
//! read. Pure, like [`envelope`](super::envelope). Both ends of a connection use this.

use std::{borrow::Cow, fmt};

use angelia_core::model::bus::SENDER_SESSION_FIELD;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The known fields of a frame as raw JSON. A frame with a repeated field is malformed, because two
/// readers might disagree about which value counts.
#[derive(Debug, Default)]
pub struct FrameFields<'a> {
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
    pub sender_session: Option<&'a RawValue>,
    pub reason: Option<&'a RawValue>,
    pub position: Option<&'a RawValue>,
    pub limit: Option<&'a RawValue>,
}

/// The `type` of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Register,
    Ping,
    ListEndpoints,
    Message,
    /// This and the following kinds are not part of hermes-bus.
    Ack,
    Refuse,
    Status,
    DeadLetters,
    Resend,
    Discard,
    /// Ignored, as in hermes-bus.
    Unknown,
}

impl FrameKind {
    pub const ALL: [Self; 11] = [
        Self::Register,
        Self::Ping,
        Self::ListEndpoints,
        Self::Message,
        Self::Ack,
        Self::Refuse,
        Self::Status,
        Self::DeadLetters,
        Self::Resend,
        Self::Discard,
        Self::Unknown,
    ];

    /// Returns whether an agent's process may send this frame. `register` checks the name itself;
    /// `ack` and `refuse` concern only messages that were delivered to the same connection.
    pub fn is_open_to_agents(self) -> bool {
        match self {
            Self::Register
            | Self::Ping
            | Self::ListEndpoints
            | Self::Message
            | Self::Ack
            | Self::Refuse
            | Self::Status
            | Self::Unknown => true,
            // Dead letters are other people's messages.
            Self::DeadLetters | Self::Resend | Self::Discard => false,
        }
    }
}

/// A malformed frame. The connection of a client without `ack` is closed, as in hermes-bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedFrame;

impl<'a> FrameFields<'a> {
    pub fn parse(frame: &'a str) -> Result<Self, MalformedFrame> {
        serde_json::from_str(frame).map_err(|_not_an_object| MalformedFrame)
    }

    pub fn kind(&self) -> FrameKind {
        let Some(Ok(kind)) = self.kind.map(scalar_text) else {
            return FrameKind::Unknown;
        };
        match kind.as_deref() {
            Some("register") => FrameKind::Register,
            Some("ping") => FrameKind::Ping,
            Some("list_endpoints") => FrameKind::ListEndpoints,
            Some("message") => FrameKind::Message,
            Some("ack") => FrameKind::Ack,
            Some("refuse") => FrameKind::Refuse,
            Some("status") => FrameKind::Status,
            Some("dead_letters") => FrameKind::DeadLetters,
            Some("resend") => FrameKind::Resend,
            Some("discard") => FrameKind::Discard,
            _ => FrameKind::Unknown,
        }
    }

    fn field_mut(&mut self, key: &str) -> Option<&mut Option<&'a RawValue>> {
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
            SENDER_SESSION_FIELD => &mut self.sender_session,
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

pub(super) fn parse_u64(value: Option<&RawValue>) -> Option<u64> {
    value?.get().parse().ok()
}

/// Returns a scalar as text, or `None` for null. Lists and objects are malformed.
pub fn scalar_text(value: &RawValue) -> Result<Option<Cow<'_, str>>, MalformedFrame> {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'"') => {
            let inner = json.get(1..json.len() - 1).ok_or(MalformedFrame)?;
            if inner.contains('\\') {
                let text = serde_json::from_str(json).map_err(|_bad_escape| MalformedFrame)?;
                return Ok(Some(Cow::Owned(text)));
            }
            Ok(Some(Cow::Borrowed(inner)))
        }
        Some(b'[' | b'{') => Err(MalformedFrame),
        _ if json == "null" => Ok(None),
        _ => Ok(Some(Cow::Borrowed(json))),
    }
}

impl<'de> Deserialize<'de> for FrameFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FrameFieldsVisitor)
    }
}

struct FrameFieldsVisitor;

impl<'de> Visitor<'de> for FrameFieldsVisitor {
    type Value = FrameFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = FrameFields::default();
        while let Some(FrameKey(key)) = map.next_key()? {
            match fields.field_mut(&key) {
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
struct FrameKey<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for FrameKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(FrameKeyVisitor)
    }
}

struct FrameKeyVisitor;

impl<'de> Visitor<'de> for FrameKeyVisitor {
    type Value = FrameKey<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(FrameKey(Cow::Borrowed(key)))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(FrameKey(Cow::Owned(key.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_are_found_however_they_are_written() {
        let fields = FrameFields::parse(r#" {"ty\u0070e": "ping", "x": {"type": 1}} "#).unwrap();
        assert_eq!(fields.kind(), FrameKind::Ping);
        let fields = FrameFields::parse(r#"{"type": "message", "to": 5, "id": "a\"b"}"#).unwrap();
        assert_eq!(scalar_text(fields.to.unwrap()).unwrap().as_deref(), Some("5"));
        assert_eq!(scalar_text(fields.id.unwrap()).unwrap().as_deref(), Some("a\"b"));
        assert_eq!(FrameFields::parse("{}").unwrap().kind(), FrameKind::Unknown);
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
            assert!(FrameFields::parse(frame).is_err(), "{frame}");
        }
    }
}
