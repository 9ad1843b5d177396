//! Whatever Markdown an agent writes, DingTalk can show every message of it, and shows every character.

use angelia_core::ports::{Channel as _, LengthLimit, LengthUnit};
use angelia_frontends::chat::formatting::{parse_markdown, split_text, to_common_markdown};
use angelia_testkit::{
    any_markdown::{any_markdown, part_message, without_spaces},
    dingtalk_server::{DingTalkServer, visible_text},
};
use proptest::prelude::*;

use super::{CHAT, TO_PERSON, adapter};

proptest! {
    #[test]
    fn every_message_is_valid_and_nothing_is_lost(
        markdown in any_markdown(),
        max in 16_usize..300,
    ) {
        let text = parse_markdown(&markdown);
        let mut shown = String::new();
        for message in split_text(&text, LengthLimit { max, unit: LengthUnit::CodePoints }) {
            let visible = visible_text(&to_common_markdown(&message));
            prop_assert!(visible.is_ok(), "{:?} {:?}", visible, message);
            shown.push_str(&visible.unwrap_or_default());
        }
        prop_assert_eq!(without_spaces(&shown), without_spaces(&text.visible_text()));
    }
}

#[tokio::test]
async fn a_long_answer_arrives_in_several_messages() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, None);
    let code = "let x = 1; // 👨‍👩‍👧‍👦 <é>\n".repeat(400);
    let text = parse_markdown(&format!("# Title\n\n```rust\n{code}```\n\nThe end."));
    let messages = split_text(&text, robot.capabilities().max_length.unwrap());
    assert!(messages.len() > 1);
    for (index, rich) in messages.iter().enumerate() {
        robot.send(CHAT, &part_message(index, rich)).await.unwrap();
    }
    let calls = server.calls(TO_PERSON);
    assert_eq!(calls.len(), messages.len());
    assert!(calls[1].fields["msgParam"].as_str().unwrap().contains("```rust"));
    assert_eq!(calls[0].fields["msgKey"], "sampleMarkdown");
    assert!(calls[0].fields["msgParam"].as_str().unwrap().contains(r#""title":"Title""#));
}
