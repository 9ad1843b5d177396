//! Turns a sender's frame into the envelope that its receiver gets: the same object, with `id` and
//! `ts` added if they are missing, a truthful `from`, no token in it, and no `ack`.

use std::{borrow::Cow, ops::Range, sync::Arc};

use angelia_core::model::{
    EndpointName, SessionId,
    bus::{BusMessage, Destination, SENDER_SESSION_FIELD},
};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::request::{FrameFields, MalformedFrame, scalar_text};

/// The sender of a message.
#[derive(Clone, Debug)]
pub enum MessageSender {
    /// `true` if a token proved the name at registration.
    Registered(EndpointName, bool),
    /// `true` if the sender sent the token of the name that it claims.
    Unregistered(bool),
}

/// A decoded `message` frame.
#[derive(Debug)]
pub enum MessageFrame {
    Message(BusMessage),
    /// The receiver's name is not a valid endpoint name.
    BadName {
        id: Arc<str>,
        why: String,
    },
}

/// Decodes a `message` frame and builds its envelope. `agent` is the session of the sending agent.
pub fn decode_message(
    frame: &str,
    fields: &FrameFields<'_>,
    sender: &MessageSender,
    agent: Option<SessionId>,
    now: Timestamp,
) -> Result<MessageFrame, MalformedFrame> {
    let mut edits = FrameEdits::new(frame);
    let id: Arc<str> = match optional_text(fields.id)? {
        Some(id) if !id.is_empty() => id.into(),
        _ => {
            let id: Arc<str> = Uuid::new_v4().to_string().into();
            edits.set("id", fields.id, json_string(&id));
            id
        }
    };
    if fields.ts.is_none() {
        edits.set("ts", None, unix_seconds(now));
    }
    let to = optional_text(fields.to)?.unwrap_or_default();
    let to = if to.is_empty() {
        Destination::Everyone
    } else {
        match EndpointName::new(&to) {
            Ok(name) => Destination::Endpoint(name),
            Err(error) => {
                let why = error.to_string();
                return Ok(MessageFrame::BadName { id, why });
            }
        }
    };
    let claimed = optional_text(fields.from)?;
    let (from, verified) = match sender {
        MessageSender::Registered(name, verified) => {
            if claimed.as_deref() != Some(name.as_str()) {
                edits.set("from", fields.from, json_string(name.as_str()));
            }
            (Some(name.as_str().into()), *verified)
        }
        MessageSender::Unregistered(verified) => (claimed.map(Into::into), *verified),
    };
    // Only the bus sets `verified`, `redelivered` and the session, and a token is secret. Correct
    // the sender's own values.
    if let Some(said) = fields.verified {
        edits.correct("verified", said, if verified { "true" } else { "false" });
    }
    if let Some(said) = fields.redelivered {
        edits.correct("redelivered", said, "false");
    }
    if let Some(token) = fields.token {
        edits.correct("token", token, "null");
    }
    match (agent, fields.sender_session) {
        (Some(session), said) => {
            edits.set(SENDER_SESSION_FIELD, said, json_string(&session.to_string()));
        }
        (None, Some(said)) => edits.correct(SENDER_SESSION_FIELD, said, "null"),
        (None, None) => {}
    }
    // The sender's requests to the bus do not concern the receiver.
    if let Some(ack) = fields.ack {
        edits.remove(ack);
    }
    Ok(MessageFrame::Message(BusMessage { id, from, verified, to, envelope: edits.apply() }))
}

fn optional_text(value: Option<&RawValue>) -> Result<Option<Cow<'_, str>>, MalformedFrame> {
    value.map_or(Ok(None), scalar_text)
}

/// Writes an envelope with `"verified": false` and `"redelivered": true` where they apply, for
/// receivers that registered with `ack`.
pub fn write_annotated(out: &mut Vec<u8>, envelope: &[u8], verified: bool, again: bool) {
    if verified && !again {
        return out.extend_from_slice(envelope);
    }
    // The sender may have used the same keys. If so, they are spelled as here, because
    // `FrameEdits::correct` removed escapes, and a byte search finds them.
    let says = |key: &[u8]| envelope.windows(key.len()).any(|part| part == key);
    if says(VERIFIED_KEY.as_bytes()) || says(REDELIVERED_KEY.as_bytes()) {
        return rewrite_annotated(out, envelope, verified, again);
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

const VERIFIED_KEY: &str = r#""verified""#;
const REDELIVERED_KEY: &str = r#""redelivered""#;

/// Writes the annotations into an envelope that already contains these keys, perhaps only in its
/// body.
fn rewrite_annotated(out: &mut Vec<u8>, envelope: &[u8], verified: bool, again: bool) {
    let frame = std::str::from_utf8(envelope).ok();
    let read = frame.and_then(|frame| Some((frame, FrameFields::parse(frame).ok()?)));
    let Some((frame, fields)) = read else {
        // Cannot happen: the envelope was parsed before it was accepted.
        return out.extend_from_slice(envelope);
    };
    let mut edits = FrameEdits::new(frame);
    if !verified {
        edits.set("verified", fields.verified, "false".to_owned());
    }
    if again {
        edits.set("redelivered", fields.redelivered, "true".to_owned());
    }
    out.extend_from_slice(&edits.apply());
}

pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Formats a time as Python's `time.time()` prints it: seconds with a fraction.
fn unix_seconds(now: Timestamp) -> String {
    let micros = now.as_microsecond();
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// The white space that JSON allows.
const JSON_BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Edits of a JSON object that leave all other bytes as they were written.
struct FrameEdits<'a> {
    frame: &'a str,
    replacements: Vec<(Range<usize>, String)>,
    additions: Vec<(&'static str, String)>,
}

impl<'a> FrameEdits<'a> {
    fn new(frame: &'a str) -> Self {
        Self { frame, replacements: Vec::new(), additions: Vec::new() }
    }

    fn set(&mut self, key: &'static str, old: Option<&RawValue>, value: String) {
        match old {
            Some(old) => {
                let place = self.place(old);
                self.replacements.push((place, value));
            }
            None => self.additions.push((key, value)),
        }
    }

    /// Sets the value of an existing key, and spells the key without escapes, so that a byte search
    /// finds it.
    fn correct(&mut self, key: &'static str, old: &RawValue, value: &str) {
        if old.get() != value {
            self.set(key, Some(old), value.to_owned());
        }
        if let Some(place) = self.key_place(old)
            && &self.frame[place.clone()] != key
        {
            self.replacements.push((place, key.to_owned()));
        }
    }

    /// Removes a key with its value and one comma.
    fn remove(&mut self, old: &RawValue) {
        let Some(key) = self.key_place(old) else { return };
        let value = self.place(old);
        let before = self.frame[..key.start - 1].trim_end_matches(JSON_BLANKS);
        if before.ends_with(',') {
            self.replacements.push((before.len() - 1..value.end, String::new()));
            return;
        }
        // It is the first key, so the comma, if there is one, comes after it.
        let rest = &self.frame[value.end..];
        let rest = rest.trim_start_matches(JSON_BLANKS);
        let rest = rest.strip_prefix(',').map_or(rest, |rest| rest.trim_start_matches(JSON_BLANKS));
        self.replacements.push((key.start - 1..self.frame.len() - rest.len(), String::new()));
    }

    /// Returns the range of a value in the frame. The value borrows from the frame, so its address
    /// gives its offset.
    fn place(&self, value: &RawValue) -> Range<usize> {
        let start = value.get().as_ptr().addr() - self.frame.as_ptr().addr();
        start..start + value.get().len()
    }

    /// Returns the range of the key of a value, without its quotes. The last two quotes before the
    /// value enclose it: a quote inside a key is escaped, and the keys of interest contain none.
    fn key_place(&self, value: &RawValue) -> Option<Range<usize>> {
        let before = &self.frame[..self.place(value).start];
        let mut quotes = before.rmatch_indices('"').map(|(place, _)| place);
        let (end, begin) = (quotes.next()?, quotes.next()?);
        Some(begin + 1..end)
    }

    fn apply(mut self) -> Bytes {
        let frame = self.frame.as_bytes();
        if self.replacements.is_empty() && self.additions.is_empty() {
            return Bytes::copy_from_slice(frame);
        }
        self.replacements.sort_by_key(|(place, _)| place.start);
        let end = frame.iter().rposition(|byte| *byte == b'}');
        let end = end.unwrap_or(frame.len());
        let mut bytes = Vec::with_capacity(frame.len() + 128);
        let mut copied = 0;
        for (place, value) in self.replacements {
            bytes.extend_from_slice(&frame[copied..place.start]);
            bytes.extend_from_slice(value.as_bytes());
            copied = place.end;
        }
        bytes.extend_from_slice(&frame[copied..end]);
        for (key, value) in self.additions {
            // Only a removal can have left the object empty.
            let is_empty = bytes.trim_ascii_end().ends_with(b"{");
            bytes.extend_from_slice(if is_empty { b"\"" } else { b", \"" });
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

    fn registered() -> MessageSender {
        MessageSender::Registered(EndpointName::new("me").unwrap(), true)
    }

    fn read(frame: &str, sender: &MessageSender) -> BusMessage {
        let fields = FrameFields::parse(frame).unwrap();
        let now = Timestamp::from_microsecond(1_794_765_418_036_115).unwrap();
        match decode_message(frame, &fields, sender, None, now).unwrap() {
            MessageFrame::Message(message) => message,
            other @ MessageFrame::BadName { .. } => panic!("{other:?}"),
        }
    }

    fn envelope(message: &BusMessage) -> &str {
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
        let message = read(frame, &MessageSender::Unregistered(false));
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
            &MessageSender::Unregistered(false),
        );
        assert!(envelope(&unverified).ends_with(r#""verified":false}"#));
        assert_eq!(unverified.to, Destination::Everyone);
    }

    #[test]
    fn what_is_asked_of_the_bus_is_not_passed_on() {
        let plain = r#"{"type":"message","id":"1","ts":1,"body":{"ack":true}}"#;
        for frame in [
            r#"{"type":"message","id":"1","ts":1,"body":{"ack":true},"ack":true}"#,
            r#"{"ack":true,"type":"message","id":"1","ts":1,"body":{"ack":true}}"#,
            r#"{ "\u0061ck" : true , "type":"message","id":"1","ts":1,"body":{"ack":true}}"#,
            "{\"type\":\"message\",\n\"ack\" : [1,2],\"id\":\"1\",\"ts\":1,\"body\":{\"ack\":true}}",
        ] {
            let message = read(frame, &MessageSender::Unregistered(false));
            let passed = envelope(&message).replace("{ ", "{");
            assert_eq!(passed, plain, "{frame}");
        }
        let whole = read(r#"{"ack":true,"token":"t","from":"x"}"#, &registered());
        let value: serde_json::Value = serde_json::from_slice(&whole.envelope).unwrap();
        assert_eq!((value.get("ack"), &value["from"]), (None, &"me".into()));
    }

    #[test]
    fn only_the_bus_says_whose_agent_sends() {
        let frame = r#"{"type":"message","id":"1","ts":1,"sender_sess\u0069on":"forged","body":0}"#;
        let message = read(frame, &MessageSender::Unregistered(false));
        assert_eq!(
            envelope(&message),
            r#"{"type":"message","id":"1","ts":1,"sender_session":null,"body":0}"#
        );
        let session = "0198c0de-0000-7000-8000-000000000001".parse().unwrap();
        for frame in [frame, r#"{"type":"message","id":"1","ts":1,"body":0}"#] {
            let fields = FrameFields::parse(frame).unwrap();
            let sender = MessageSender::Unregistered(false);
            let decoded =
                decode_message(frame, &fields, &sender, Some(session), Timestamp::UNIX_EPOCH);
            let Ok(MessageFrame::Message(message)) = decoded else { panic!("{decoded:?}") };
            assert_eq!(message.content().sender_session, Some(session), "{frame}");
        }
    }

    #[test]
    fn notes_are_for_those_who_ask() {
        let mut out = Vec::new();
        write_annotated(&mut out, br#"{"a": 1} "#, false, true);
        assert_eq!(out, br#"{"a": 1, "verified": false, "redelivered": true}"#);
    }

    #[test]
    fn a_note_is_there_once_whatever_the_sender_wrote() {
        let frame = r#"{"type":"message","id":"1","ts":1,"verif\u0069ed" : "no","redelivered":7}"#;
        let message = read(frame, &MessageSender::Unregistered(false));
        let expected =
            r#"{"type":"message","id":"1","ts":1,"verified" : false,"redelivered":false}"#;
        assert_eq!(envelope(&message), expected);
        let mut out = Vec::new();
        write_annotated(&mut out, &message.envelope, false, true);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out, expected.replace(r#""redelivered":false"#, r#""redelivered":true"#));
        let mut out = Vec::new();
        write_annotated(&mut out, br#"{"body": {"verified": true}}"#, false, false);
        assert_eq!(out, br#"{"body": {"verified": true}, "verified": false}"#);
    }
}
