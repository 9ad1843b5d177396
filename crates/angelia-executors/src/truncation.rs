//! Truncates agents' text to short, readable lines.

use std::borrow::Cow;

/// The maximum length of a title, in characters.
pub(crate) const MAX_TITLE_CHARS: usize = 160;

/// Returns the first non-empty line, with ` …` appended if anything was left out.
pub(crate) fn first_line(text: &str) -> Option<Cow<'_, str>> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let cut = first.char_indices().nth(MAX_TITLE_CHARS).map(|(at, _)| at);
    match (cut, lines.next()) {
        (None, None) => Some(first.into()),
        (cut, _) => Some(format!("{} …", &first[..cut.unwrap_or(first.len())]).into()),
    }
}

/// Returns at most `limit` characters, with ` …` appended if anything was left out.
pub(crate) fn truncate_chars(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{} …", &text[..at]).into(),
        None => text.into(),
    }
}
