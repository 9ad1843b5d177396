//! Buttons for platforms that have none: a message lists its choices, each behind an emoji, the bot reacts to it with
//! these emojis, and whoever reacts with one of them presses. What a choice means stands in the message itself, so
//! that a later process knows it too. Pure.

use angelia_core::ports::{BlockKind, Button, RichBlock, RichText, Span, SpanStyle};
use serde_json::{Value, json};

/// The most choices of a message.
const MAX_CHOICES: usize = 10;

/// Some clients leave it out.
const VARIATION: char = '\u{fe0f}';

/// Returns the emoji of a choice: a key with its number.
fn emoji(index: usize) -> String {
    match index {
        9 => "\u{1f51f}".to_owned(),
        _ => format!("{}{VARIATION}\u{20e3}", index + 1),
    }
}

/// Returns the emojis of a message's choices.
pub(super) fn emojis(buttons: &[Button]) -> impl Iterator<Item = String> {
    (0..buttons.len().min(MAX_CHOICES)).map(emoji)
}

/// Adds a line for each choice.
pub(super) fn push_choices(text: &mut RichText, buttons: &[Button]) {
    for (index, (emoji, button)) in emojis(buttons).zip(buttons).enumerate() {
        let label = button.label.replace('\n', " ");
        let spans = vec![Span { text: format!("{emoji} {label}"), style: SpanStyle::default() }];
        text.blocks.push(RichBlock { kind: BlockKind::Text, spans, has_gap: index == 0 });
    }
}

/// Returns the meanings of a message's choices, as its content has them.
pub(super) fn encode_choices(buttons: &[Button]) -> Value {
    let values = buttons.iter().take(MAX_CHOICES).map(|button| json!(&*button.value));
    values.collect()
}

/// Returns which choice an emoji stands for.
pub(super) fn index_of(reaction: &str) -> Option<usize> {
    let bare = |text: &str| text.replace(VARIATION, "");
    (0..MAX_CHOICES).find(|index| bare(&emoji(*index)) == bare(reaction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_stand_behind_numbers() {
        let buttons = ["a", "b"].map(|value| Button {
            label: format!("label\n{value}").into(),
            value: value.into(),
            words: None,
        });
        let mut text = RichText::plain("really?");
        push_choices(&mut text, &buttons);
        assert_eq!(
            text.visible_text(),
            "really?\n\n1\u{fe0f}\u{20e3} label a\n2\u{fe0f}\u{20e3} label b"
        );
        assert_eq!(encode_choices(&buttons), json!(["a", "b"]));
        for (index, emoji) in (0..MAX_CHOICES).map(emoji).enumerate() {
            assert_eq!(index_of(&emoji), Some(index));
        }
        assert_eq!(index_of("1\u{20e3}"), Some(0), "some clients leave the variation out");
        assert_eq!(index_of("1"), None);
    }
}
