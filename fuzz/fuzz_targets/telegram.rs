//! Feeds any updates of the Bot API to the decoder of Telegram: an event has a key and a chat, or it is none.

#![no_main]

use angelia_frontends::chat::telegram::{BotIdentity, decode_updates};
use serde_json::Value;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(updates) = serde_json::from_slice::<Vec<Value>>(bytes) else { return };
    let bot = BotIdentity { id: 99, username: "bot".to_owned(), ..BotIdentity::default() };
    let events = decode_updates(&updates, &bot);
    assert!(events.len() <= updates.len());
    for event in events {
        assert!(!event.dedupe_key.is_empty());
        assert!(!event.chat.is_empty());
    }
});
