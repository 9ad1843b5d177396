//! Whatever Markdown an agent writes, a card shows every character of it, and no card is too large.

use angelia_core::ports::{Channel as _, LengthLimit, LengthUnit, OutgoingMessage, RichText};
use angelia_frontends::chat::{
    feishu::to_markdown,
    formatting::{parse_markdown, split_text},
};
use angelia_testkit::feishu_server::{FeishuServer, visible_markdown};
use proptest::prelude::*;

use super::{adapter, chat};

fn solid(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #[test]
    fn every_message_is_valid_and_nothing_is_lost(
        parts in prop::collection::vec(prop_oneof![
            "\\PC{0,60}", "[a-z <>&\"'*_~`#|:+=.0-9\\[\\]()\\\\!$-]{0,60}\n", "[*_~`a ]{0,20}",
            Just("\n\n".to_owned()), Just("```py\n".to_owned()), Just("```\n".to_owned()),
            Just("| a | <b> |\n|---|---|\n| c | d |\n".to_owned()),
            Just("- **x _y_** [l*k](http://u?a=1&b=(2)) [f](src/a.rs)\n".to_owned()),
            Just("  - deep\n".to_owned()), Just("7. seven\n".to_owned()), Just("> ".to_owned()),
            Just("~~`a<b`~~ ".to_owned()), Just("a**b**c*d*中**“文”**字".to_owned()),
            Just("`` ` `` `x``y`".to_owned()), Just("***all*** **a***b*".to_owned()),
        ], 0..16),
        max in 16_usize..300,
    ) {
        let text = parse_markdown(&parts.concat());
        let mut shown = String::new();
        for message in split_text(&text, LengthLimit { max, unit: LengthUnit::Bytes }) {
            let markdown = to_markdown(&message);
            let visible = visible_markdown(&markdown);
            prop_assert!(visible.is_ok(), "{:?}: {}", visible, markdown);
            shown.push_str(&visible.unwrap_or_default());
        }
        prop_assert_eq!(solid(&shown), solid(&text.visible_text()));
    }

    #[test]
    fn plain_text_is_shown_as_it_is(text in "[\\PC\n\t]{0,200}") {
        let visible = visible_markdown(&to_markdown(&RichText::plain(&text)));
        prop_assert_eq!(visible.map(|shown| solid(&shown)), Ok(solid(&text)));
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
        assert_eq!(solid(&shown.text), solid(&text));
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
        let message = OutgoingMessage {
            id: index.to_string().into(),
            text: rich.visible_text().into(),
            rich: Some(rich.clone()),
            ..OutgoingMessage::default()
        };
        bot.send(&chat(), &message).await.unwrap();
    }
    for call in &server.calls("send")[..messages.len() - 1] {
        let card = call.fields["content"].as_str().unwrap();
        assert!(card.contains("```rust"), "{card}");
    }
}
