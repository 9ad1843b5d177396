//! Bus messages.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, value::RawValue};

use super::EndpointName;
use crate::model::SessionId;

/// The envelope field that names the session whose agent sent the message. Only the bus writes it.
pub const SENDER_SESSION_FIELD: &str = "sender_session";

/// An id chosen by the sender. Messages with the same id, sender, receiver and body are the same
/// message.
pub type MessageId = Arc<str>;

/// A message to one endpoint or to all endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusMessage {
    pub id: MessageId,
    /// The sender as claimed; see `verified`.
    pub from: Option<Arc<str>>,
    /// Whether `from` is proven: the sender holds that name, or has sent the name's token.
    pub verified: bool,
    pub to: Destination,
    /// The JSON object that the receiver gets: as the sender wrote it, but with `id`, `ts` and a
    /// true `from`.
    pub envelope: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    Endpoint(EndpointName),
    /// Every endpoint registered when the message is published.
    Everyone,
}

/// The parsed fields of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageContent {
    /// `body.type`.
    pub kind: Option<String>,
    /// `body.text`. A body that is a string is the text itself; any other body is its JSON.
    pub text: String,
    /// `body.channel`, unmodified.
    pub channel: Option<String>,
    /// Unix seconds.
    pub ts: f64,
    /// The session whose agent sent the message.
    pub sender_session: Option<SessionId>,
    /// The whole body.
    pub body: Value,
}

impl BusMessage {
    /// Composes a message in the form that every client reads.
    pub fn compose(
        id: impl Into<MessageId>,
        from: &EndpointName,
        to: &EndpointName,
        ts: f64,
        body: &RawValue,
    ) -> Self {
        let id = id.into();
        let text = |value: &str| Value::from(value).to_string();
        let envelope = format!(
            r#"{{"type":"message","to":{},"from":{},"id":{},"ts":{},"body":{}}}"#,
            text(to.as_str()),
            text(from.as_str()),
            text(&id),
            Value::from(ts),
            body.get(),
        );
        Self {
            id,
            from: Some(from.as_str().into()),
            verified: true,
            to: Destination::Endpoint(to.clone()),
            envelope: envelope.into(),
        }
    }

    /// Adds the session whose agent sent a composed message.
    #[must_use]
    pub fn with_sender_session(self, session: SessionId) -> Self {
        let fields = self.envelope.strip_suffix(b"}").unwrap_or(&self.envelope);
        let mut envelope = fields.to_vec();
        envelope
            .extend_from_slice(format!(r#","{SENDER_SESSION_FIELD}":"{session}"}}"#).as_bytes());
        Self { envelope: envelope.into(), ..self }
    }

    /// Parses the envelope for a reader of the body. The other fields of the message were read when
    /// the message came in. Never fails: an envelope that cannot be parsed becomes the text.
    pub fn content(&self) -> MessageContent {
        let Ok(mut envelope) = serde_json::from_slice::<Map<String, Value>>(&self.envelope) else {
            // Nested too deeply, or invalid UTF-8: show the raw text rather than nothing.
            return MessageContent {
                kind: None,
                text: String::from_utf8_lossy(&self.envelope).into_owned(),
                channel: None,
                ts: 0.0,
                sender_session: None,
                body: Value::Null,
            };
        };
        let body = envelope.remove("body").unwrap_or(Value::Null);
        let field = |name: &str| body.get(name)?.as_str().map(str::to_owned);
        let text = match &body {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            body => field("text").unwrap_or_else(|| body.to_string()),
        };
        MessageContent {
            kind: field("type"),
            text,
            channel: field("channel"),
            ts: envelope.get("ts").and_then(Value::as_f64).unwrap_or(0.0),
            sender_session: (envelope.get(SENDER_SESSION_FIELD).and_then(Value::as_str))
                .and_then(|id| id.parse().ok()),
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_body(body: &str) -> BusMessage {
        let name = |name| EndpointName::new(name).unwrap();
        let body: &RawValue = serde_json::from_str(body).unwrap();
        BusMessage::compose("m\"1", &name("a"), &name("b"), 1.5, body)
    }

    #[test]
    fn what_is_composed_can_be_read() {
        let message = with_body(r#"{"text":"hi","type":"ask","channel":"x:y"}"#);
        let value: Value = serde_json::from_slice(&message.envelope).unwrap();
        assert_eq!(value["id"], "m\"1");
        assert_eq!(value["from"], "a");
        let content = message.content();
        assert_eq!(content.kind.as_deref(), Some("ask"));
        assert_eq!(content.channel.as_deref(), Some("x:y"));
        assert_eq!((content.text.as_str(), content.ts), ("hi", 1.5));
        assert_eq!(content.sender_session, None);
        let session = "0198c0de-0000-7000-8000-000000000001".parse().unwrap();
        let of_agent = message.with_sender_session(session).content();
        assert_eq!(of_agent, MessageContent { sender_session: Some(session), ..content });
    }

    #[test]
    fn every_body_has_a_text() {
        assert_eq!(with_body(r#""plain""#).content().text, "plain");
        assert_eq!(with_body("null").content().text, "");
        assert_eq!(with_body("[1,2]").content().text, "[1,2]");
        assert_eq!(with_body(r#"{"text":7}"#).content().text, r#"{"text":7}"#);
        let odd = BusMessage { envelope: Bytes::from_static(b"not json"), ..with_body("1") };
        assert_eq!(odd.content().text, "not json");
    }
}
