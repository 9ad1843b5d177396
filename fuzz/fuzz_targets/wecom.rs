//! Feeds any text of the connection to the decoder of WeCom: it returns an event with a key and a chat, or nothing.

#![no_main]

use angelia_frontends::chat::wecom::{BotFrame, Callback, decode_frame};
use jiff::Timestamp;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some(frame) = BotFrame::parse(text) else { return };
    match decode_frame(&frame, Timestamp::UNIX_EPOCH) {
        Some(Callback::Message { event, .. } | Callback::Press { event, .. }) => {
            assert!(!event.dedupe_key.is_empty());
            assert!(!event.chat.is_empty());
            assert!(!event.sender.id.is_empty());
        }
        Some(Callback::Displaced) | None => {}
    }
});
