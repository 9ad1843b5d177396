//! Whatever Markdown an agent writes, Mattermost shows every character of it, in posts that are short enough.

use std::sync::Arc;

use angelia_core::ports::{Channel, LengthLimit, LengthUnit};
use angelia_frontends::chat::{
    formatting::{parse_markdown, split_to_fit},
    mattermost::to_markdown,
};
use angelia_testkit::{
    any_markdown::{part_message, without_spaces},
    mattermost_server::{MattermostServer, visible_text},
};
use proptest::prelude::*;

/// Returns the characters that a person sees. Zero-width spaces keep mentions from being one.
fn seen_text(text: &str) -> String {
    without_spaces(text).replace('\u{200b}', "")
}

proptest! {
    #[test]
    fn every_message_is_short_enough_and_nothing_is_lost(
        parts in prop::collection::vec(prop_oneof![
            "[a-zäß<>&*_~`|\\\\\\[\\]()#.+:@ -]{0,60}", "[a-z <>&*_~`]{0,60}\n", Just("\n\n".to_owned()),
            Just("```py\n".to_owned()), Just("```\n".to_owned()), Just("1. x\n".to_owned()),
            Just("| a | `b` |\n|---|---|\n| c | d |\n".to_owned()), Just("> ".to_owned()),
            Just("- **x _y_** [l](http://u?a=1&b=2)\n".to_owned()), Just("# h\n".to_owned()),
            Just("~~`a*b`~~ ".to_owned()), Just("***a***b*c*".to_owned()), Just("@channel ".to_owned()),
        ], 0..16),
        max in 100_usize..600,
    ) {
        let text = parse_markdown(&parts.concat());
        let limit = LengthLimit { max, unit: LengthUnit::CodePoints };
        let mut shown = String::new();
        for message in split_to_fit(&text, limit, &|text| Some(to_markdown(text).chars().count())) {
            let markdown = to_markdown(&message);
            prop_assert!(markdown.chars().count() <= max, "{}", markdown);
            shown.push_str(&visible_text(&markdown));
        }
        prop_assert_eq!(seen_text(&shown), seen_text(&text.visible_text()));
    }
}

#[tokio::test]
async fn a_long_answer_arrives_in_several_messages_and_pings_nobody() {
    let server = MattermostServer::start();
    let bot: Arc<dyn Channel> = super::adapter(&server);
    let channel = server.direct_channel(super::PERSON);
    let code = "@decorated\nlet snake_case = 1; // 👨‍👩‍👧‍👦\n".repeat(300);
    let prose = "many_under_scores and *stars* @channel a@b.c ".repeat(400);
    let text = parse_markdown(&format!("# Title\n\n```rust\n{code}```\n\n{prose}"));
    let limit = bot.capabilities().max_length.unwrap();
    let messages = split_to_fit(&text, limit, &|part| bot.written_length(part));
    assert!(messages.len() > 1);
    for (index, rich) in messages.iter().enumerate() {
        bot.send(&channel, &part_message(index, rich)).await.unwrap();
    }
    for (call, rich) in server.calls("POST posts").iter().zip(&messages) {
        let written = call.fields["message"].as_str().unwrap();
        assert!(!written.contains("@channel"), "nobody is pinged");
        assert_eq!(seen_text(&visible_text(written)), seen_text(&rich.visible_text()));
    }
    let first = server.calls("POST posts")[0].fields["message"].as_str().unwrap().to_owned();
    assert!(first.contains("@decorated"), "code stays as it is");
}
