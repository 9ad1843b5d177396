//! Messages as cards of schema 2.0. Pure. If the formatted text is refused or too large, the card gets the
//! same text without formatting.

use angelia_core::ports::{Button, OutgoingMessage, RichText};
use serde_json::{Value, json};

use super::markdown::to_markdown;
use crate::chat::formatting::remove_controls;

/// The id of the element that contains the text.
pub(super) const TEXT_ELEMENT: &str = "answer";

/// The largest card as encoded in the request. The platform's limit is 30 KB.
const MAX_CARD_BYTES: usize = 29_000;

/// The length of the summary that chat lists show.
const SUMMARY_LENGTH: usize = 80;

/// The syntax of a card's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CardText {
    Markdown,
    Plain,
}

/// Returns a card in the platform's form: JSON in a string.
pub(super) fn message_card(
    message: &OutgoingMessage,
    is_direct: Option<bool>,
    text: CardText,
) -> String {
    let card = |text: CardText| {
        let mut elements = vec![text_element(message, text)];
        if !message.buttons.is_empty() {
            elements.push(button_row(&message.buttons, is_direct));
        }
        json!({
            "schema": "2.0",
            "config": {"update_multi": true, "summary": {"content": summary(&message.text)}},
            "body": {"elements": elements},
        })
        .to_string()
    };
    let formatted = card(text);
    if text == CardText::Markdown
        && Value::from(formatted.as_str()).to_string().len() > MAX_CARD_BYTES
    {
        return card(CardText::Plain);
    }
    formatted
}

/// Returns a card whose text can grow.
pub(super) fn streaming_card(message: &OutgoingMessage) -> String {
    json!({
        "schema": "2.0",
        "config": {"update_multi": true, "streaming_mode": true, "summary": {"content": ""}},
        "body": {"elements": [text_element(message, CardText::Markdown)]},
    })
    .to_string()
}

/// Returns the settings that end a card's growth.
pub(super) fn ended_settings(message: &OutgoingMessage) -> String {
    let summary = summary(&message.text);
    json!({"config": {"streaming_mode": false, "summary": {"content": summary}}}).to_string()
}

/// Returns a message's text in the Markdown of cards.
pub(super) fn markdown_of(message: &OutgoingMessage) -> String {
    match &message.rich {
        Some(rich) => to_markdown(rich),
        None => to_markdown(&RichText::plain(&message.text)),
    }
}

fn text_element(message: &OutgoingMessage, text: CardText) -> Value {
    match text {
        CardText::Markdown => json!({
            "tag": "markdown", "element_id": TEXT_ELEMENT, "content": markdown_of(message),
        }),
        CardText::Plain => json!({
            "tag": "div", "element_id": TEXT_ELEMENT,
            "text": {"tag": "plain_text", "content": remove_controls(&message.text)},
        }),
    }
}

fn button_row(buttons: &[Button], is_direct: Option<bool>) -> Value {
    let columns: Vec<Value> = buttons
        .iter()
        .map(|button| {
            let mut value = json!({"value": &*button.value});
            // A press does not tell whether its chat is direct, so the button does.
            if let Some(is_direct) = is_direct {
                value["direct"] = is_direct.into();
            }
            let button = json!({
                "tag": "button", "text": {"tag": "plain_text", "content": &*button.label}, "type": "default",
                "behaviors": [{"type": "callback", "value": value}],
            });
            json!({"tag": "column", "width": "auto", "elements": [button]})
        })
        .collect();
    json!({"tag": "column_set", "flex_mode": "flow", "columns": columns})
}

fn summary(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SUMMARY_LENGTH).collect()
}

/// Returns the answer to a press: a toast that the person sees.
pub(super) fn toast(text: &str) -> Value {
    json!({"toast": {"type": "info", "content": text}})
}
