//! Whatever Markdown an agent writes, every character of it is shown, in messages that are short enough.

use angelia_core::ports::{LengthLimit, LengthUnit};
use angelia_frontends::chat::{
    formatting::{parse_markdown, split_to_fit},
    wecom::{BotFrame, decode_frame, to_markdown},
};
use angelia_testkit::wecom_server::visible_text;
use jiff::Timestamp;
use proptest::prelude::*;

fn solid(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn written(text: &str) -> usize {
    serde_json::to_string(text).unwrap().len()
}

proptest! {
    #[test]
    fn every_message_is_short_enough_and_nothing_is_lost(
        parts in prop::collection::vec(prop_oneof![
            "\\PC{0,60}", "[a-z <>&\"'*_~`#|:+=.0-9\\[\\]()\\\\!$-]{0,60}\n", "[*_~`a ]{0,20}",
            Just("\n\n".to_owned()), Just("```py\n".to_owned()), Just("```\n".to_owned()),
            Just("| a | <b> |\n|---|---|\n| c | d |\n".to_owned()), Just("> ".to_owned()),
            Just("- **x _y_** [l*k](http://u?a=1&b=(2)) [f](src/a.rs)\n".to_owned()),
            Just("  - deep\n".to_owned()), Just("7. seven\n".to_owned()),
        ], 0..16),
        max in 200_usize..800,
    ) {
        let text = parse_markdown(&parts.concat());
        let limit = LengthLimit { max, unit: LengthUnit::Bytes };
        let mut shown = String::new();
        for message in split_to_fit(&text, limit, &|part| Some(written(&to_markdown(part)))) {
            let markdown = to_markdown(&message);
            prop_assert!(written(&markdown) <= max, "{}", markdown);
            shown.push_str(&visible_text(&markdown));
        }
        prop_assert_eq!(solid(&shown), solid(&text.visible_text()));
    }

    #[test]
    fn no_frame_is_fatal(text in "\\PC{0,100}", id in "\\PC{0,20}") {
        let frames = [
            text.clone(),
            serde_json::json!({"cmd": "aibot_msg_callback", "headers": {"req_id": id}, "body": {
                "msgid": id, "from": {"userid": id}, "chatid": text, "msgtype": "text",
                "text": {"content": text}, "create_time": text.len(),
            }}).to_string(),
        ];
        for frame in frames {
            if let Some(frame) = BotFrame::parse(&frame) {
                let _any = decode_frame(&frame, Timestamp::UNIX_EPOCH);
            }
        }
    }
}
