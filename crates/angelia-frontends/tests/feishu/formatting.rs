//! Whatever Markdown an agent writes, a card shows every character of it, and no card is too large.

use angelia_core::ports::{Channel as _, LengthLimit, LengthUnit, OutgoingMessage, RichText};
use angelia_frontends::chat::{
    feishu::to_markdown,
    formatting::{parse_markdown, split_text},
};
use angelia_testkit::{
    any_markdown::{any_markdown, part_message, without_spaces},
    feishu_server::{FeishuServer, visible_markdown},
};
use proptest::prelude::*;

use super::{adapter, chat};

proptest! {
    #[test]
    fn every_message_is_valid_and_nothing_is_lost(
        markdown in any_markdown(),
        max in 16_usize..300,
    ) {
        let text = parse_markdown(&markdown);
        let mut shown = String::new();
        for message in split_text(&text, LengthLimit { max, unit: LengthUnit::Bytes }) {
            let written = to_markdown(&message);
            let visible = visible_markdown(&written);
            prop_assert!(visible.is_ok(), "{:?}: {}", visible, written);
            shown.push_str(&visible.unwrap_or_default());
        }
        prop_assert_eq!(without_spaces(&shown), without_spaces(&text.visible_text()));
    }

    #[test]
    fn plain_text_is_shown_as_it_is(text in "[\\PC\n\t]{0,200}") {
        let visible = visible_markdown(&to_markdown(&RichText::plain(&text)));
        prop_assert_eq!(visible.map(|shown| without_spaces(&shown)), Ok(without_spaces(&text)));
    }
}

#[tokio::test]
async fn the_longest_texts_fit_into_a_card() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    let limit = bot.capabilities().max_length.unwrap();
    for (index, part) in ["\"", "*", "\\", "中", "word ", "😀", "\n"].into_iter().enumerate() {
        let text = format!("x{}x", part.repeat((limit.max - 2) / part.len()));
        assert!(limit.unit.measure(&text) <= limit.max);
        let message = OutgoingMessage {
            id: index.to_string().into(),
            text: text.as_str().into(),
            rich: Some(RichText::plain(&text)),
            ..OutgoingMessage::default()
        };
        bot.send(&chat(), &message).await.unwrap();
        let shown = server.messages(&chat()).pop().unwrap();
        assert_eq!(without_spaces(&shown.text), without_spaces(&text));
    }
}

#[tokio::test]
async fn a_long_answer_arrives_in_several_messages() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    let code = "let x = 1; // 👨‍👩‍👧‍👦\n".repeat(300);
    let text = parse_markdown(&format!("# Title\n\n```rust\n{code}```\n\nThe end."));
    let messages = split_text(&text, bot.capabilities().max_length.unwrap());
    assert!(messages.len() > 1);
    for (index, rich) in messages.iter().enumerate() {
        bot.send(&chat(), &part_message(index, rich)).await.unwrap();
    }
    for call in &server.calls("send")[..messages.len() - 1] {
        let card = call.fields["content"].as_str().unwrap();
        assert!(card.contains("```rust"), "{card}");
    }
}
