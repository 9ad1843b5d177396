//! Whatever Markdown an agent writes, Slack accepts every message of it, and shows every character.

use angelia_core::ports::{Channel as _, LengthLimit, LengthUnit, OutgoingMessage};
use angelia_frontends::chat::{
    formatting::{parse_markdown, split_text},
    slack::to_blocks,
};
use angelia_testkit::{
    any_markdown::{any_markdown, without_spaces},
    slack_server::{SlackServer, read_blocks},
};
use proptest::prelude::*;

use super::{adapter, markdown};

proptest! {
    #[test]
    fn every_message_is_valid_and_nothing_is_lost(
        markdown in any_markdown(),
        max in prop_oneof![16_usize..300, Just(3900)],
    ) {
        let text = parse_markdown(&markdown);
        let mut shown = String::new();
        for message in split_text(&text, LengthLimit { max, unit: LengthUnit::CodePoints }) {
            let read = read_blocks(&to_blocks(&message, &[]));
            prop_assert!(read.is_ok(), "{:?}", read);
            shown.push_str(&read.unwrap_or_default().text);
        }
        prop_assert_eq!(without_spaces(&shown), without_spaces(&text.visible_text()));
    }
}

#[tokio::test]
async fn a_long_answer_arrives_whole_also_as_an_edit() {
    let server = SlackServer::start();
    let slack = adapter(&server);
    let limit = slack.capabilities().max_length.unwrap();
    let text =
        parse_markdown(&format!("# 标题\n\n```rust\n{}```", "let 数 = 1 && 2;\n".repeat(400)));
    let messages = split_text(&text, limit);
    assert!(messages.len() > 1);
    let part = OutgoingMessage {
        text: messages[0].visible_text().into(),
        rich: Some(messages[0].clone()),
        ..OutgoingMessage::default()
    };
    let sent = slack.send("C1", &markdown("short")).await.unwrap();
    slack.edit("C1", &sent, &part).await.unwrap();
    let shown = server.messages("C1").remove(0);
    assert_eq!(without_spaces(&shown.text), without_spaces(&part.text));
    let edit = server.calls("chat.update").remove(0);
    let fallback = edit.fields["text"].as_str().unwrap();
    assert!(fallback.len() <= 4000 && fallback.ends_with('…'), "{}", fallback.len());
    assert!(edit.fields["blocks"].to_string().contains("rich_text_preformatted"));
}
