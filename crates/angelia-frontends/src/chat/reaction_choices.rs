//! Buttons for platforms that have none. A message lists its choices, each with an emoji, and the bot reacts to
//! the message with these emojis; reacting with one of them counts as a press. The message itself stores what
//! each choice means, so that a later process knows it too. Pure.

use angelia_core::ports::{BlockKind, Button, RichBlock, RichText, Span, SpanStyle};
use serde_json::{Value, json};

/// The limit on choices in a message.
const MAX_CHOICES: usize = 10;

/// The variation selector, which some clients leave out.
const VARIATION: char = '\u{fe0f}';

/// Returns the emoji of a choice: a keycap with its number.
fn emoji(index: usize) -> String {
    match index {
        9 => "\u{1f51f}".to_owned(),
        _ => format!("{}{VARIATION}\u{20e3}", index + 1),
    }
}

/// Returns the emojis for a message's buttons.
pub(super) fn emojis(buttons: &[Button]) -> impl Iterator<Item = String> {
    (0..buttons.len().min(MAX_CHOICES)).map(emoji)
}

/// Appends a line for each choice.
pub(super) fn push_choices(text: &mut RichText, buttons: &[Button]) {
    for (index, (emoji, button)) in emojis(buttons).zip(buttons).enumerate() {
        let label = button.label.replace('\n', " ");
        let spans = vec![Span { text: format!("{emoji} {label}"), style: SpanStyle::default() }];
        text.blocks.push(RichBlock { kind: BlockKind::Text, spans, has_gap: index == 0 });
    }
}

/// Returns the values of a message's choices, in the form that the message stores.
pub(super) fn encode_choices(buttons: &[Button]) -> Value {
    let values = buttons.iter().take(MAX_CHOICES).map(|button| json!(&*button.value));
    values.collect()
}

/// Returns the index of the choice that an emoji stands for.
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
