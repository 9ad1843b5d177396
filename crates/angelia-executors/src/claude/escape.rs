//! Keeps untrusted text from triggering slash commands and file mentions.
//!
//! In a user message, the program treats a leading `/` as a command and `@path` as a request to put
//! that file into the prompt. The owner wants that at a terminal, but nobody else may trigger it.
//!
//! There are two countermeasures, both pinned by tests against the real program:
//!
//! - [`make_inert`]: appends an empty block. The program examines only the last block of a message,
//!   and removes an empty block before the model sees it, so the text stays byte-exact.
//! - [`neutralize`]: puts a word joiner (U+2060, which has no width and is not white space) in
//!   front of every `@` and `/` that could trigger something. This does not depend on how blocks
//!   are handled, so it is used where that is unknown: for unverified versions, and for text that
//!   is added to a running turn.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::Content;

/// Has no width, is not white space, and is allowed between any two characters.
const WORD_JOINER: char = '\u{2060}';

/// Whether we know how the program handles commands and mentions in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextHandling {
    /// An empty last block is known to be sufficient.
    Verified,
    Unverified,
}

/// Returns the content with everything made inert that could trigger a command or a mention.
pub(crate) fn make_inert(content: &[Content], reader: TextHandling) -> Vec<Content> {
    let mut safe: Vec<Content> = content
        .iter()
        .map(|content| match (content, reader) {
            (Content::Text(text), TextHandling::Unverified) => {
                Content::Text(match neutralize(text) {
                    Cow::Borrowed(_) => Arc::clone(text),
                    Cow::Owned(text) => text.into(),
                })
            }
            _ => content.clone(),
        })
        .collect();
    if let Some(Content::Text(last)) = safe.last()
        && may_trigger(last)
    {
        safe.push(Content::text(""));
    }
    safe
}

/// Reports whether text could trigger a command or a mention. Errs on the side of `true`.
fn may_trigger(text: &str) -> bool {
    text.contains('@') || text.trim_start().starts_with('/')
}

/// Returns text that reads the same but triggers nothing.
pub(crate) fn neutralize(text: &str) -> Cow<'_, str> {
    if !may_trigger(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = None;
    let mut at_start = true;
    for char in text.chars() {
        let could_act = match char {
            '@' => !before.is_some_and(makes_at_inert),
            '/' => at_start,
            _ => false,
        };
        if could_act {
            out.push(WORD_JOINER);
        }
        out.push(char);
        at_start &= char.is_whitespace() || char == '\u{feff}';
        before = Some(char);
    }
    Cow::Owned(out)
}

/// Reports whether an `@` after this character is part of a word, as in an email address. After any
/// other character, such as any script's white space or the ideographic full stop, it may start a
/// mention.
fn makes_at_inert(before: char) -> bool {
    before.is_ascii_alphanumeric() || matches!(before, '.' | '_' | '-' | '+' | WORD_JOINER)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_that_cannot_act_are_left_alone() {
        for text in ["", "hello", "either/or", "1 / 2", "mail"] {
            assert!(matches!(neutralize(text), Cow::Borrowed(_)), "{text}");
        }
        assert_eq!(neutralize("ask me@example.org"), "ask me@example.org");
    }

    #[test]
    fn mentions_and_commands_are_taken_apart() {
        let cases = [
            ("@/etc/passwd", "\u{2060}@/etc/passwd"),
            ("see @\"a b\" and @c", "see \u{2060}@\"a b\" and \u{2060}@c"),
            ("\u{3002}@x", "\u{3002}\u{2060}@x"),
            ("(@x)", "(\u{2060}@x)"),
            ("@@x", "\u{2060}@\u{2060}@x"),
            ("/clear", "\u{2060}/clear"),
            (" \n/clear", " \n\u{2060}/clear"),
            ("// note", "\u{2060}// note"),
            ("a\n/clear", "a\n/clear"),
        ];
        for (text, expected) in cases {
            assert_eq!(neutralize(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_empty_end_is_added_only_where_the_last_words_could_act() {
        let text = Content::text;
        let image = Content::Image { media_type: "image/png".into(), data: Arc::from(*b"x") };
        let known = |content: &[Content]| make_inert(content, TextHandling::Verified);
        assert_eq!(known(&[text("hi")]), [text("hi")]);
        assert_eq!(known(&[text("/x")]), [text("/x"), text("")]);
        assert_eq!(
            known(&[text("@a"), text("b")]),
            [text("@a"), text("b")],
            "only the last block is looked at"
        );
        assert_eq!(known(&[text("@a"), image.clone()]), [text("@a"), image]);
        assert_eq!(
            make_inert(&[text("@a")], TextHandling::Unverified),
            [text("\u{2060}@a"), text("")]
        );
    }

    proptest! {
        #[test]
        fn nothing_acts_and_nothing_is_lost(text in "[ \n\t@/a\u{2060}\u{3000}\u{feff}.\\\\\"é。-]{0,24}|.*") {
            let safe = neutralize(&text);
            let without = |text: &str| text.replace(WORD_JOINER, "");
            prop_assert_eq!(without(&safe), without(&text));
            prop_assert!(!safe.trim_start().starts_with('/'));
            let mut before = None;
            for char in safe.chars() {
                if char == '@' {
                    prop_assert!(before.is_some_and(makes_at_inert));
                }
                before = Some(char);
            }
        }
    }
}
