//! Whatever Markdown an agent writes, Discord shows every character of it, in messages that are short enough.

use std::sync::Arc;

use angelia_core::ports::{Channel, LengthLimit, LengthUnit, OutgoingMessage, RichText};
use angelia_frontends::chat::{
    discord::to_markdown,
    formatting::{parse_markdown, split_to_fit},
};
use angelia_testkit::{
    any_markdown::{any_markdown, part_message, without_spaces},
    discord_server::{DiscordServer, visible_text},
};
use proptest::prelude::*;

/// Returns the characters that a person sees. Zero-width spaces keep emphasis apart.
fn seen_text(markdown: &str) -> String {
    without_spaces(&visible_text(markdown)).replace('\u{200b}', "")
}

/// Nothing of the visible text may be missing. An address may be shown besides the words of its link.
fn is_all_there(shown: &str, wanted: &str) -> bool {
    let mut shown = shown.chars();
    wanted.chars().all(|c| shown.any(|other| other == c))
}

proptest! {
    #[test]
    fn every_message_is_short_enough_and_nothing_is_lost(
        markdown in any_markdown(),
        max in 100_usize..600,
    ) {
        let text = parse_markdown(&markdown);
        let limit = LengthLimit { max, unit: LengthUnit::CodePoints };
        let mut shown = String::new();
        for message in split_to_fit(&text, limit, &|text| Some(to_markdown(text).chars().count())) {
            let written = to_markdown(&message);
            prop_assert!(written.chars().count() <= max, "{}", written);
            let seen = seen_text(&written);
            prop_assert!(
                is_all_there(&seen, &without_spaces(&message.visible_text())),
                "{:?} shows {:?} of {:?}", written, seen, message.visible_text(),
            );
            shown.push_str(&seen);
        }
        prop_assert!(is_all_there(&shown, &without_spaces(&text.visible_text())));
    }

    /// Without links, a person sees exactly the text.
    #[test]
    fn plain_text_is_shown_as_it_is(text in "[a-z0-9 <>@&*_~`|\\\\\\[\\]()#.+>:\n-]{0,80}") {
        let markdown = to_markdown(&RichText::plain(&text));
        prop_assert_eq!(seen_text(&markdown), without_spaces(&text), "{}", markdown);
    }
}

#[tokio::test]
async fn a_long_answer_arrives_in_several_messages_and_pings_nobody() {
    let server = DiscordServer::start();
    let bot: Arc<dyn Channel> = super::adapter(&server);
    let channel = DiscordServer::direct_channel(super::PERSON);
    let code = "let snake_case = 1; // 👨‍👩‍👧‍👦\n".repeat(100);
    let prose = "many_under_scores and *stars* @everyone ".repeat(60);
    let text = parse_markdown(&format!("# Title\n\n```rust\n{code}```\n\n`{prose}`\n\n{prose}"));
    let limit = bot.capabilities().max_length.unwrap();
    let messages = split_to_fit(&text, limit, &|part| bot.written_length(part));
    assert!(messages.len() > 3);
    for (index, rich) in messages.iter().enumerate().take(4) {
        bot.send(&channel, &part_message(index, rich)).await.unwrap();
    }
    for (call, rich) in server.calls("POST messages").iter().zip(&messages) {
        assert_eq!(call.fields["allowed_mentions"], serde_json::json!({"parse": []}));
        let shown = seen_text(call.fields["content"].as_str().unwrap());
        assert_eq!(shown, without_spaces(&rich.visible_text()));
    }
    let too_long = OutgoingMessage { text: "x".repeat(2001).into(), ..OutgoingMessage::default() };
    let error = bot.send(&channel, &too_long).await.unwrap_err();
    assert!(error.message.contains("2000 characters"), "{error}");
}
