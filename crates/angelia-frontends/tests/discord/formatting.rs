//! Whatever Markdown an agent writes, Discord shows every character of it, in messages that are short enough.

use std::sync::Arc;

use angelia_core::ports::{Channel, LengthLimit, LengthUnit, OutgoingMessage, RichText};
use angelia_frontends::chat::{
    discord::to_markdown,
    formatting::{parse_markdown, split_to_fit},
};
use angelia_testkit::discord_server::{DiscordServer, visible_text};
use proptest::prelude::*;

fn solid(text: &str) -> String {
    let is_visible = |c: &char| !c.is_whitespace() && *c != '\u{200b}';
    text.chars().filter(is_visible).collect()
}

/// Nothing of the visible text may be missing. An address may be shown besides the words of its link.
fn is_all_there(shown: &str, wanted: &str) -> bool {
    let mut shown = shown.chars();
    wanted.chars().all(|c| shown.any(|other| other == c))
}

proptest! {
    #[test]
    fn every_message_is_short_enough_and_nothing_is_lost(
        parts in prop::collection::vec(prop_oneof![
            "\\PC{0,60}", "[a-z <>&*_~`|\\\\\\[\\]()#.-]{0,60}\n", Just("\n\n".to_owned()),
            Just("```py\n".to_owned()), Just("```\n".to_owned()), Just("1. x\n".to_owned()),
            Just("| a | `b` |\n|---|---|\n| c | d |\n".to_owned()), Just("> ".to_owned()),
            Just("- **x _y_** [l](http://u?a=1&b=(2))\n".to_owned()), Just("# h\n".to_owned()),
            Just("~~`a*b`~~ ".to_owned()), Just("***a***b*c*".to_owned()), Just("<@123>".to_owned()),
            Just("**http://a_b.c/*d*** ".to_owned()), Just("[http://x.y](http://z.y)".to_owned()),
        ], 0..16),
        max in 100_usize..600,
    ) {
        let text = parse_markdown(&parts.concat());
        let limit = LengthLimit { max, unit: LengthUnit::CodePoints };
        let mut shown = String::new();
        for message in split_to_fit(&text, limit, &|text| Some(to_markdown(text).chars().count())) {
            let markdown = to_markdown(&message);
            prop_assert!(markdown.chars().count() <= max, "{}", markdown);
            let seen = visible_text(&markdown);
            prop_assert!(
                is_all_there(&solid(&seen), &solid(&message.visible_text())),
                "{:?} shows {:?} of {:?}", markdown, seen, message.visible_text(),
            );
            shown.push_str(&seen);
        }
        prop_assert!(is_all_there(&solid(&shown), &solid(&text.visible_text())));
    }

    /// Without links, a person sees exactly the text.
    #[test]
    fn plain_text_is_shown_as_it_is(text in "[a-z0-9 <>@&*_~`|\\\\\\[\\]()#.+>:\n-]{0,80}") {
        let markdown = to_markdown(&RichText::plain(&text));
        prop_assert_eq!(solid(&visible_text(&markdown)), solid(&text), "{}", markdown);
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
        let message = OutgoingMessage {
            id: index.to_string().into(),
            text: rich.visible_text().into(),
            rich: Some(RichText::clone(rich)),
            ..OutgoingMessage::default()
        };
        bot.send(&channel, &message).await.unwrap();
    }
    for (call, rich) in server.calls("POST messages").iter().zip(&messages) {
        assert_eq!(call.fields["allowed_mentions"], serde_json::json!({"parse": []}));
        let shown = visible_text(call.fields["content"].as_str().unwrap());
        assert_eq!(solid(&shown), solid(&rich.visible_text()));
    }
    let too_long = OutgoingMessage { text: "x".repeat(2001).into(), ..OutgoingMessage::default() };
    let error = bot.send(&channel, &too_long).await.unwrap_err();
    assert!(error.message.contains("2000 characters"), "{error}");
}
