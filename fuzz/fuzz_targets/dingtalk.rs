//! Feeds any text of the stream to the decoder of DingTalk: it returns an event with a key and a chat, or nothing.

#![no_main]

use angelia_frontends::chat::dingtalk::{StreamFrame, decode_frame};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some(frame) = StreamFrame::parse(text) else { return };
    if let Some(decoded) = decode_frame(&frame) {
        assert!(!decoded.event.dedupe_key.is_empty());
        assert!(!decoded.event.chat.is_empty());
        assert!(!decoded.event.sender.id.is_empty());
    }
});
