//! The invariants for any frame that a client writes; the fuzz target checks the same.

use angelia_core::model::{EndpointName, bus::BusMessage};
use angelia_frontends::bus::{
    envelope::{MessageFrame, MessageSender, decode_message, write_annotated},
    request::{FrameFields, FrameKind},
};
use jiff::Timestamp;
use serde_json::value::RawValue;

/// Asserts that a frame is either malformed or decoded, and that a message is passed on unchanged,
/// with a true sender for every reader.
pub(crate) fn check(frame: &[u8]) {
    let Ok(frame) = std::str::from_utf8(frame) else {
        return;
    };
    let Ok(fields) = FrameFields::parse(frame) else {
        return;
    };
    if fields.kind() != FrameKind::Message {
        return;
    }
    let me = EndpointName::new("me").unwrap();
    for sender in [
        MessageSender::Registered(me.clone(), true),
        MessageSender::Registered(me, false),
        MessageSender::Unregistered(true),
        MessageSender::Unregistered(false),
    ] {
        if let Ok(MessageFrame::Message(message)) =
            decode_message(frame, &fields, &sender, None, now())
        {
            check_message(frame, &sender, &message);
        }
    }
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn check_message(frame: &str, sender: &MessageSender, message: &BusMessage) {
    let envelope = text(&message.envelope);
    assert_eq!(field(envelope, "body"), field(frame, "body"), "untouched");
    assert_eq!(field(envelope, "to"), field(frame, "to"), "untouched");
    assert!(field(envelope, "ts").is_some());
    assert!(!message.id.is_empty());
    let is_proven =
        matches!(sender, MessageSender::Unregistered(true) | MessageSender::Registered(_, true));
    assert_eq!(message.verified, is_proven);
    if let MessageSender::Registered(name, _) = sender {
        assert_eq!(message.from.as_deref(), Some(name.as_str()));
        assert_eq!(string(envelope, "from"), *name.as_str());
    }
    assert!(field(envelope, "token").is_none_or(|token| token == "null"));
    // Passing an envelope on a second time does not change it.
    let fields = FrameFields::parse(envelope).unwrap();
    let Ok(MessageFrame::Message(again)) = decode_message(envelope, &fields, sender, None, now())
    else {
        panic!("not understood again: {envelope}");
    };
    assert_eq!(again.envelope, message.envelope);
    assert_eq!((&again.id, &again.from), (&message.id, &message.from));
    for redelivered in [false, true] {
        check_notes(envelope, message.verified, redelivered);
    }
}

/// Asserts that no field occurs twice, so that all readers agree on it.
fn check_notes(envelope: &str, verified: bool, again: bool) {
    let mut out = Vec::new();
    write_annotated(&mut out, envelope.as_bytes(), verified, again);
    let out = text(&out);
    assert!(FrameFields::parse(out).is_ok(), "{out}");
    if !verified {
        assert_eq!(field(out, "verified").as_deref(), Some("false"));
    }
    let said = field(out, "redelivered");
    assert_eq!(said.as_deref() == Some("true"), again);
    assert_eq!(field(out, "body"), field(envelope, "body"));
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns the last field of that name, as other JSON readers do.
fn field(frame: &str, name: &str) -> Option<String> {
    let all: std::collections::HashMap<String, &RawValue> = serde_json::from_str(frame).ok()?;
    all.get(name).map(|value| value.get().to_owned())
}

fn string(frame: &str, name: &str) -> String {
    serde_json::from_str(&field(frame, name).unwrap()).unwrap()
}
