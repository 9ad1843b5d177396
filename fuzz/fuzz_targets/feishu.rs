//! Feeds any bytes to the decoder of Feishu's frames, and their payload to the decoder of events: a frame that is
//! read is written back the same, and no event breaks anything.

#![no_main]

use angelia_frontends::chat::feishu::{BotIdentity, FeishuFrame, decode_payload};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let bot = BotIdentity { open_id: "ou_bot".into(), name: "Bot".into() };
    let _any = decode_payload(data, &bot);
    if let Some(frame) = FeishuFrame::decode(data) {
        assert_eq!(FeishuFrame::decode(&frame.encode()).as_ref(), Some(&frame));
        let _any = decode_payload(frame.payload.as_deref().unwrap_or_default(), &bot);
    }
});
