//! Turns a sender's frame into the envelope that its receiver gets: the same object, with `id` and
//! `ts` added if they are missing, a truthful `from`, and no token in it.

use std::{borrow::Cow, ops::Range, sync::Arc};

use angelia_core::model::{
    EndpointName,
    bus::{Destination, Message},
};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::request::{Fields, Malformed, text};

/// The sender of a message.
#[derive(Clone, Debug)]
pub enum Sender {
    Registered(EndpointName),
    /// `true`: the sender has sent the token of the name it claims.
    Unregistered(bool),
}

/// A decoded `message` frame.
#[derive(Debug)]
pub enum Letter {
    Message(Message),
    /// The receiver's name is not a valid endpoint name.
    BadName {
        id: Arc<str>,
        why: String,
    },
}

/// Decodes a `message` frame and builds its envelope.
pub fn letter(
    frame: &str,
    fields: &Fields<'_>,
    sender: &Sender,
    now: Timestamp,
) -> Result<Letter, Malformed> {
    let mut edits = Edits::new(frame);
    let id: Arc<str> = match scalar(fields.id)? {
        Some(id) if !id.is_empty() => id.into(),
        _ => {
            let id: Arc<str> = Uuid::new_v4().to_string().into();
            edits.set("id", fields.id, json(&id));
            id
        }
    };
    if fields.ts.is_none() {
        edits.set("ts", None, seconds(now));
    }
    let to = scalar(fields.to)?.unwrap_or_default();
    let to = if to.is_empty() {
        Destination::Everyone
    } else {
        match EndpointName::new(&to) {
            Ok(name) => Destination::Endpoint(name),
            Err(error) => {
                let why = error.to_string();
                return Ok(Letter::BadName { id, why });
            }
        }
    };
    let claimed = scalar(fields.from)?;
    let (from, verified) = match sender {
        Sender::Registered(name) => {
            if claimed.as_deref() != Some(name.as_str()) {
                edits.set("from", fields.from, json(name.as_str()));
            }
            (Some(name.as_str().into()), true)
        }
        Sender::Unregistered(verified) => (claimed.map(Into::into), *verified),
    };
    // `verified` and `redelivered` are ours to say, and a token is a secret: a sender's own values
    // are corrected.
    if let Some(said) = fields.verified {
        edits.correct("verified", said, if verified { "true" } else { "false" });
    }
    if let Some(said) = fields.redelivered {
        edits.correct("redelivered", said, "false");
    }
    if let Some(token) = fields.token {
        edits.correct("token", token, "null");
    }
    Ok(Letter::Message(Message { id, from, verified, to, envelope: edits.apply() }))
}

fn scalar(value: Option<&RawValue>) -> Result<Option<Cow<'_, str>>, Malformed> {
    value.map_or(Ok(None), text)
}

/// Writes an envelope with `"verified": false` and `"redelivered": true` where they apply, for
/// receivers that registered with `ack`.
pub fn annotated(out: &mut Vec<u8>, envelope: &[u8], verified: bool, again: bool) {
    if verified && !again {
        return out.extend_from_slice(envelope);
    }
    // The sender may have used the same keys. They are then spelled as here, because
    // `FrameEdits::correct` removed escapes, so a byte search finds them.
    let says = |key: &[u8]| envelope.windows(key.len()).any(|part| part == key);
    if says(VERIFIED.as_bytes()) || says(REDELIVERED.as_bytes()) {
        return annotated_again(out, envelope, verified, again);
    }
    let end = envelope.iter().rposition(|byte| *byte == b'}');
    out.extend_from_slice(&envelope[..end.unwrap_or(envelope.len())]);
    if !verified {
        out.extend_from_slice(br#", "verified": false"#);
    }
    if again {
        out.extend_from_slice(br#", "redelivered": true"#);
    }
    out.push(b'}');
}

const VERIFIED: &str = r#""verified""#;
const REDELIVERED: &str = r#""redelivered""#;

/// Writes the annotations into an envelope that contains these keys already, perhaps only in its
/// body.
fn annotated_again(out: &mut Vec<u8>, envelope: &[u8], verified: bool, again: bool) {
    let frame = std::str::from_utf8(envelope).ok();
    let read = frame.and_then(|frame| Some((frame, Fields::read(frame).ok()?)));
    let Some((frame, fields)) = read else {
        // Cannot happen: the envelope was parsed before it was accepted.
        return out.extend_from_slice(envelope);
    };
    let mut edits = Edits::new(frame);
    if !verified {
        edits.set("verified", fields.verified, "false".to_owned());
    }
    if again {
        edits.set("redelivered", fields.redelivered, "true".to_owned());
    }
    out.extend_from_slice(&edits.apply());
}

pub(super) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Formats a time as Python's `time.time()` prints it: seconds with a fraction.
fn seconds(now: Timestamp) -> String {
    let micros = now.as_microsecond();
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Edits of a JSON object that leave all other bytes as they were written.
struct Edits<'a> {
    frame: &'a str,
    replaced: Vec<(Range<usize>, String)>,
    added: Vec<(&'static str, String)>,
}

impl<'a> Edits<'a> {
    fn new(frame: &'a str) -> Self {
        Self { frame, replaced: Vec::new(), added: Vec::new() }
    }

    fn set(&mut self, key: &'static str, old: Option<&RawValue>, value: String) {
        match old {
            Some(old) => {
                // `old` borrows from the frame, so the address gives its offset.
                let start = old.get().as_ptr().addr() - self.frame.as_ptr().addr();
                self.replaced.push((start..start + old.get().len(), value));
            }
            None => self.added.push((key, value)),
        }
    }

    /// Sets the value of an existing key, and spells the key without escapes, so that a byte search
    /// finds it.
    fn correct(&mut self, key: &'static str, old: &RawValue, value: &str) {
        if old.get() != value {
            self.set(key, Some(old), value.to_owned());
        }
        let start = old.get().as_ptr().addr() - self.frame.as_ptr().addr();
        let before = &self.frame[..start];
        // The last two quotes before the value enclose the key: a quote inside a key is escaped,
        // and these keys contain none.
        let mut quotes = before.rmatch_indices('"').map(|(place, _)| place);
        if let (Some(end), Some(begin)) = (quotes.next(), quotes.next())
            && &before[begin + 1..end] != key
        {
            let place = begin + 1..end;
            self.replaced.push((place, key.to_owned()));
        }
    }

    fn apply(mut self) -> Bytes {
        let frame = self.frame.as_bytes();
        if self.replaced.is_empty() && self.added.is_empty() {
            return Bytes::copy_from_slice(frame);
        }
        self.replaced.sort_by_key(|(place, _)| place.start);
        let end = frame.iter().rposition(|byte| *byte == b'}');
        let end = end.unwrap_or(frame.len());
        let mut bytes = Vec::with_capacity(frame.len() + 128);
        let mut copied = 0;
        for (place, value) in self.replaced {
            bytes.extend_from_slice(&frame[copied..place.start]);
            bytes.extend_from_slice(value.as_bytes());
            copied = place.end;
        }
        bytes.extend_from_slice(&frame[copied..end]);
        for (key, value) in self.added {
            bytes.extend_from_slice(b", \"");
            bytes.extend_from_slice(key.as_bytes());
            bytes.extend_from_slice(b"\": ");
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes.push(b'}');
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered() -> Sender {
        Sender::Registered(EndpointName::new("me").unwrap())
    }

    fn read(frame: &str, sender: &Sender) -> Message {
        let fields = Fields::read(frame).unwrap();
        let now = Timestamp::from_microsecond(1_794_765_418_036_115).unwrap();
        match letter(frame, &fields, sender, now).unwrap() {
            Letter::Message(message) => message,
            other @ Letter::BadName { .. } => panic!("{other:?}"),
        }
    }

    fn envelope(message: &Message) -> &str {
        std::str::from_utf8(&message.envelope).unwrap()
    }

    #[test]
    fn what_is_complete_and_true_is_passed_on_to_the_byte() {
        let frame = r#"{"type": "message", "to": "a", "from": "me", "id": "1", "ts": 1.5, "extra": {"k": 1}, "body": "ü"}"#;
        assert_eq!(envelope(&read(frame, &registered())), frame);
    }

    #[test]
    fn what_is_missing_is_added_at_the_end() {
        let frame = r#"{"type": "message", "to": "a", "body": {"text": "x", "id": 3}}"#;
        let message = read(frame, &Sender::Unregistered(false));
        let expected = format!(
            r#"{{"type": "message", "to": "a", "body": {{"text": "x", "id": 3}}, "id": "{}", "ts": 1794765418.036115}}"#,
            message.id
        );
        assert_eq!(envelope(&message), expected);
        assert!(!message.verified && message.from.is_none());
    }

    #[test]
    fn a_registered_sender_has_its_own_name() {
        let frame = r#"{"from":"forged","verified":false,"type":"message","to":"a","id":"1","ts":1,"token":"s","body":0}"#;
        let message = read(frame, &registered());
        assert_eq!(
            envelope(&message),
            r#"{"from":"me","verified":true,"type":"message","to":"a","id":"1","ts":1,"token":null,"body":0}"#
        );
        let unverified = read(
            r#"{"type":"message","id":"1","ts":1,"from":"x","verified":true}"#,
            &Sender::Unregistered(false),
        );
        assert!(envelope(&unverified).ends_with(r#""verified":false}"#));
        assert_eq!(unverified.to, Destination::Everyone);
    }

    #[test]
    fn notes_are_for_those_who_ask() {
        let mut out = Vec::new();
        annotated(&mut out, br#"{"a": 1} "#, false, true);
        assert_eq!(out, br#"{"a": 1, "verified": false, "redelivered": true}"#);
    }

    #[test]
    fn a_note_is_there_once_whatever_the_sender_wrote() {
        let frame = r#"{"type":"message","id":"1","ts":1,"verif\u0069ed" : "no","redelivered":7}"#;
        let message = read(frame, &Sender::Unregistered(false));
        let expected =
            r#"{"type":"message","id":"1","ts":1,"verified" : false,"redelivered":false}"#;
        assert_eq!(envelope(&message), expected);
        let mut out = Vec::new();
        annotated(&mut out, &message.envelope, false, true);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out, expected.replace(r#""redelivered":false"#, r#""redelivered":true"#));
        let mut out = Vec::new();
        annotated(&mut out, br#"{"body": {"verified": true}}"#, false, false);
        assert_eq!(out, br#"{"body": {"verified": true}, "verified": false}"#);
    }
}
