//! Cutting what agents say down to a line for people.

use std::borrow::Cow;

/// One line for people is cut here.
pub(crate) const TITLE: usize = 160;

/// The first line that says something, with a sign where there is more.
pub(crate) fn first_line(text: &str) -> Option<Cow<'_, str>> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let cut = first.char_indices().nth(TITLE).map(|(at, _)| at);
    match (cut, lines.next()) {
        (None, None) => Some(first.into()),
        (cut, _) => Some(format!("{} …", &first[..cut.unwrap_or(first.len())]).into()),
    }
}

/// At most so many characters, with a sign where there were more.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{} …", &text[..at]).into(),
        None => text.into(),
    }
}
