//! Feeds any JSON to the decoder of Matrix: it returns an event with an id and a sender, or nothing.

#![no_main]

use angelia_frontends::chat::matrix::{RoomEventKind, decode_event};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(event) = serde_json::from_str(text) else { return };
    let Some(decoded) = decode_event(&event) else { return };
    assert!(!decoded.id.is_empty());
    assert!(!decoded.sender.is_empty());
    if let RoomEventKind::Message(message) = decoded.kind {
        assert_eq!(message.text, message.text.trim());
    }
});
