//! Whatever Markdown an agent writes, clients of Matrix show every character of it, in events that fit.

use std::sync::Arc;

use angelia_core::ports::{Channel, LengthLimit, LengthUnit};
use angelia_frontends::chat::{
    formatting::{parse_markdown, split_to_fit},
    matrix::to_html,
};
use angelia_testkit::{
    any_markdown::{any_markdown, part_message, without_spaces},
    matrix_server::{MatrixServer, visible_text},
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_message_is_valid_and_nothing_is_lost(
        markdown in any_markdown(),
        max in 100_usize..600,
    ) {
        let text = parse_markdown(&markdown);
        let limit = LengthLimit { max, unit: LengthUnit::Bytes };
        let mut shown = String::new();
        for message in split_to_fit(&text, limit, &|part| Some(to_html(part).len())) {
            let html = to_html(&message);
            let visible = visible_text(&html);
            prop_assert!(visible.is_ok(), "{:?}: {}", visible, html);
            shown.push_str(&visible.unwrap_or_default());
        }
        prop_assert_eq!(without_spaces(&shown), without_spaces(&text.visible_text()));
    }
}

#[tokio::test]
async fn a_long_answer_arrives_in_events_that_fit_also_as_edits() {
    let server = MatrixServer::start();
    let room = server.direct_room(super::PERSON);
    let bot: Arc<dyn Channel> = super::adapter(&server);
    let code = "let \"x\" = 1; // 👨‍👩‍👧‍👦\n".repeat(900);
    let prose = "many **words** & <tags> @room ".repeat(900);
    let text = parse_markdown(&format!("# Title\n\n```rust\n{code}```\n\n{prose}"));
    let limit = bot.capabilities().max_length.unwrap();
    let messages = split_to_fit(&text, limit, &|part| bot.written_length(part));
    assert!(messages.len() > 2);
    for (index, rich) in messages.iter().enumerate() {
        let message = part_message(index, rich);
        let sent = bot.send(&room, &message).await.unwrap();
        bot.edit(&room, &sent, &message).await.unwrap();
    }
    for call in server.calls("PUT send") {
        assert_eq!(call.fields["m.mentions"], serde_json::json!({}), "nobody is pinged");
    }
    for (shown, rich) in server.messages(&room).iter().zip(&messages) {
        assert_eq!(without_spaces(&shown.text), without_spaces(&rich.visible_text()));
    }
}
