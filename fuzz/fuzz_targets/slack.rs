//! Feeds any envelope of Socket Mode to the decoder of Slack: an event has a key, or it is none.

#![no_main]

use angelia_frontends::chat::slack::{SlackBot, decode_envelope};
use serde_json::Value;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(envelope) = serde_json::from_slice::<Value>(bytes) else { return };
    let bot = SlackBot { user_id: "U99".to_owned(), ..SlackBot::default() };
    if let Some(event) = decode_envelope(&envelope, &bot) {
        assert!(!event.dedupe_key.is_empty());
    }
});
