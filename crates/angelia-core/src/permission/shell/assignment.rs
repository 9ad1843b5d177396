//! Assignments among the words of a command.

use super::word::{Piece, Word};

pub(super) fn is_array_assignment(word: &Word) -> bool {
    word.bare().is_some_and(|text| {
        text.ends_with('=') && is_name(text.trim_end_matches('=').trim_end_matches('+'))
    })
}

pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Splits `NAME=value`, `NAME+=value` and `NAME[subscript]=value`; the subscript stays in the name.
pub(super) fn split_assignment(word: &Word) -> Option<(String, Word)> {
    let (first, rest) = word.pieces.split_first()?;
    let Piece::Text { text, quoted: false } = first else {
        return None;
    };
    let name: String =
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    if !is_name(&name) {
        return None;
    }
    let tail = &text[name.len()..];
    let (tail, appends) = tail.strip_prefix('+').map_or((tail, false), |tail| (tail, true));
    if let Some(value) = tail.strip_prefix('=') {
        let mut pieces = Vec::with_capacity(word.pieces.len());
        if !value.is_empty() {
            pieces.push(Piece::Text { text: value.to_owned(), quoted: false });
        }
        pieces.extend_from_slice(rest);
        let value = Word { pieces };
        // What is appended says little about the whole value.
        let is_known = !appends || value.is_numeric();
        return Some((name, if is_known { value } else { Word::hole(true) }));
    }
    // A subscript: the value is not known, and the shell evaluates the text in the brackets.
    (tail.starts_with('[') && word_has_closing_subscript(word))
        .then(|| (text.clone(), Word::hole(true)))
}

/// Splits `NAME=value`, also where a part is quoted: `env "A=b" …`.
pub(super) fn split_known_assignment(word: &Word) -> Option<(String, Word)> {
    if let Some((name, value)) = split_assignment(word) {
        return Some((name, value));
    }
    let start = word.start();
    let (name, value) = start.split_once('=')?;
    let value = if word.has_hole() { Word::hole(true) } else { Word::known(value) };
    (!name.is_empty() && !name.starts_with('-')).then(|| (name.to_owned(), value))
}

fn word_has_closing_subscript(word: &Word) -> bool {
    word.pieces.iter().any(|piece| {
        matches!(piece, Piece::Text { text, quoted: false }
            if text.contains("]=") || text.contains("]+="))
    })
}
