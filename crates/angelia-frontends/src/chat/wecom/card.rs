//! Cards with buttons. Pure. A card has room for a title and a line or two, so a longer text is sent as a
//! message before it.

use angelia_core::ports::OutgoingMessage;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The longest title and the longest text of a card, in characters, as the platform recommends.
const MAX_TITLE: usize = 36;
const MAX_TEXT: usize = 112;

const MAX_BUTTONS: usize = 6;

/// The longest label of a button. Longer labels are cut.
const MAX_LABEL: usize = 20;

/// Returns the id of a card, which is the same for every attempt.
pub(super) fn task_id(message: &str) -> String {
    format!("angelia-{}", &hex::encode(Sha256::digest(message.as_bytes()))[..32])
}

/// Returns whether the card alone can show the whole text.
pub(super) fn fits(text: &str) -> bool {
    let (title, rest) = split_title(text);
    title.chars().count() <= MAX_TITLE && rest.chars().count() <= MAX_TEXT
}

/// Returns a card with the buttons of a message.
pub(super) fn ask(task_id: &str, message: &OutgoingMessage) -> Value {
    let buttons = message.buttons.iter().take(MAX_BUTTONS).enumerate().map(|(index, button)| {
        let style = if index == 0 { 1 } else { 2 };
        json!({"text": cut(&button.label, MAX_LABEL), "style": style, "key": &*button.value})
    });
    let (title, rest) = split_title(&message.text);
    json!({
        "card_type": "button_interaction",
        "main_title": {"title": cut(title, MAX_TITLE)},
        "sub_title_text": cut(rest, MAX_TEXT),
        "button_list": buttons.collect::<Vec<_>>(),
        "task_id": task_id,
    })
}

/// Returns the same card after the decision. The last line tells what happened, so it becomes the
/// title.
pub(super) fn tell(task_id: &str, message: &OutgoingMessage) -> Value {
    let text = message.text.trim();
    let (rest, title) = text.rsplit_once('\n').unwrap_or(("", text));
    json!({
        "card_type": "text_notice",
        "main_title": {"title": cut(title, MAX_TEXT)},
        "sub_title_text": cut(rest.trim(), MAX_TEXT),
        "task_id": task_id,
    })
}

fn split_title(text: &str) -> (&str, &str) {
    let (title, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
    (title.trim(), rest.trim())
}

fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use angelia_core::ports::Button;

    use super::*;

    #[test]
    fn a_card_is_short_and_has_few_buttons() {
        let button = |label: &str| Button { label: label.into(), ..Button::default() };
        let message = OutgoingMessage {
            text: format!("The agent asks:\n\n{}", "x".repeat(500)).into(),
            buttons: (0..9).map(|index| button(&index.to_string())).collect(),
            ..OutgoingMessage::default()
        };
        let card = ask("t", &message);
        assert_eq!(card["button_list"].as_array().unwrap().len(), MAX_BUTTONS);
        assert_eq!(card["sub_title_text"].as_str().unwrap().chars().count(), MAX_TEXT);
        assert!(!fits(&message.text) && fits("really?"));
        let id = task_id("approval-1");
        assert!(id.len() <= 128 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
        let told = OutgoingMessage { text: "asked\n\nAllowed by Ada".into(), ..message };
        assert_eq!(tell("t", &told)["main_title"]["title"], "Allowed by Ada");
    }
}
