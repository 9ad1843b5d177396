//! Dispatches of Discord's gateway: whatever they contain, none stops the program.

#![no_main]

use angelia_frontends::chat::discord::decode_dispatch;
use serde_json::Value;

const NAMES: [&str; 5] = [
    "MESSAGE_CREATE",
    "MESSAGE_UPDATE",
    "MESSAGE_DELETE",
    "MESSAGE_DELETE_BULK",
    "INTERACTION_CREATE",
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(data) = serde_json::from_slice::<Value>(bytes) else { return };
    for name in NAMES {
        for decoded in decode_dispatch(name, &data, "99") {
            assert!(!decoded.event.dedupe_key.is_empty());
        }
    }
});
