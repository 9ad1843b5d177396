//! Whatever Markdown an agent writes, Telegram accepts every message of it, and shows every character.

use std::sync::Arc;

use angelia_core::ports::{Channel, LengthLimit, LengthUnit};
use angelia_frontends::chat::{
    formatting::{parse_markdown, split_text},
    telegram::to_html,
};
use angelia_testkit::{
    any_markdown::{any_markdown, part_message, without_spaces},
    telegram_server::{TelegramServer, visible_text},
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_message_is_valid_and_nothing_is_lost(
        markdown in any_markdown(),
        max in 16_usize..300,
    ) {
        let text = parse_markdown(&markdown);
        let mut shown = String::new();
        for message in split_text(&text, LengthLimit { max, unit: LengthUnit::Utf16 }) {
            let visible = visible_text(&to_html(&message));
            prop_assert!(visible.is_ok(), "{:?}", visible);
            let visible = visible.unwrap_or_default();
            prop_assert!(visible.encode_utf16().count() <= max);
            shown.push_str(&visible);
        }
        prop_assert_eq!(without_spaces(&shown), without_spaces(&text.visible_text()));
    }
}

#[tokio::test]
async fn a_long_answer_arrives_in_several_messages() {
    let server = TelegramServer::start();
    let bot: Arc<dyn Channel> = super::adapter(&server);
    let code = "let x = 1; // 👨‍👩‍👧‍👦\n".repeat(300);
    let text = parse_markdown(&format!("# Title\n\n```rust\n{code}```\n\nThe end."));
    let limit = bot.capabilities().max_length.unwrap();
    let messages = split_text(&text, limit);
    assert!(messages.len() > 1);
    for (index, rich) in messages.iter().enumerate().take(2) {
        bot.send("7", &part_message(index, rich)).await.unwrap();
    }
    let calls = server.calls("sendMessage");
    for call in &calls {
        let html = call.fields["text"].as_str().unwrap();
        assert!(html.contains("<pre><code class=\"language-rust\">"), "{html}");
        assert_eq!(call.fields["parse_mode"], "HTML");
    }
}
