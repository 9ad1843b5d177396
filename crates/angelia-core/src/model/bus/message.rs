//! What is sent over the bus.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, value::RawValue};

use super::EndpointName;

/// The sender's own name for a message; two with the same one, sender and receiver are one message.
pub type MessageId = Arc<str>;

/// A message on its way to one receiver, or to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: MessageId,
    /// As claimed; `verified` says whether it is known to be true.
    pub from: Option<Arc<str>>,
    /// The sender is who `from` says: it holds that name, or proved it by the name's token.
    pub verified: bool,
    pub to: Destination,
    /// The JSON object that the receiver gets, as the sender wrote it; `id`, `ts` and a true `from`
    /// are in it.
    pub envelope: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    Endpoint(EndpointName),
    /// Every endpoint that is registered at that moment.
    Everyone,
}

/// What a message says, for those who act on it.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageContent {
    /// `body.type`.
    pub kind: Option<String>,
    /// `body.text`; a body that is plain text is that text; any other body is its JSON.
    pub text: String,
    /// `body.channel`, unmodified.
    pub channel: Option<String>,
    /// Unix seconds.
    pub ts: f64,
    /// The whole body.
    pub body: Value,
}

impl Message {
    /// A message of ours, in the form that every client reads.
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

    /// Whatever the envelope holds, something can be said about it.
    pub fn content(&self) -> MessageContent {
        let Ok(envelope) = serde_json::from_slice::<Map<String, Value>>(&self.envelope) else {
            // Too deep, or with half a character in it: shown as it is rather than not at all.
            return MessageContent {
                kind: None,
                text: String::from_utf8_lossy(&self.envelope).into_owned(),
                channel: None,
                ts: 0.0,
                body: Value::Null,
            };
        };
        let body = envelope.get("body").cloned().unwrap_or(Value::Null);
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
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_body(body: &str) -> Message {
        let name = |name| EndpointName::new(name).unwrap();
        let body: &RawValue = serde_json::from_str(body).unwrap();
        Message::compose("m\"1", &name("a"), &name("b"), 1.5, body)
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
    }

    #[test]
    fn every_body_has_a_text() {
        assert_eq!(with_body(r#""plain""#).content().text, "plain");
        assert_eq!(with_body("null").content().text, "");
        assert_eq!(with_body("[1,2]").content().text, "[1,2]");
        assert_eq!(with_body(r#"{"text":7}"#).content().text, r#"{"text":7}"#);
        let odd = Message { envelope: Bytes::from_static(b"not json"), ..with_body("1") };
        assert_eq!(odd.content().text, "not json");
    }
}
