//! Cuts a text for the model: numbered lines, within limits.

use std::{borrow::Cow, fmt::Write as _, ops::Range};

/// The limits of every tool result.
pub(super) const MAX_LINES: usize = 2000;
pub(super) const MAX_BYTES: usize = 48 * 1024;

/// Longer lines are cut.
pub(super) const MAX_LINE_CHARS: usize = 2000;

/// The number of lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// The maximum number of lines shown for a change.
const MAX_CHANGE_LINES: usize = 60;

/// A part of a text with line numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberedLines {
    pub(super) text: String,
    /// The shown lines, counted from 1; the end is not included.
    pub(super) lines: Range<usize>,
    /// The number of lines in the whole text.
    pub(super) total: usize,
}

/// Numbers as many lines as fit, starting with line `first`, which counts from 1.
pub(super) fn number_lines(text: &str, first: usize, limit: usize) -> NumberedLines {
    let total = text.lines().count();
    let mut shown = String::new();
    let mut next = first;
    for line in text.lines().skip(first - 1).take(limit.min(MAX_LINES)) {
        let line = cut_line(line);
        if shown.len() + line.len() + 8 > MAX_BYTES {
            break;
        }
        let _infallible = writeln!(shown, "{next}\t{line}");
        next += 1;
    }
    NumberedLines { text: shown, lines: first..next, total }
}

/// Returns the changed lines of a text, with some context.
pub(super) fn show_change(text: &str, lines: &Range<usize>) -> String {
    let first = lines.start.saturating_sub(CONTEXT_LINES).max(1);
    let end = lines.end.saturating_add(CONTEXT_LINES);
    let count = (end - first).min(MAX_CHANGE_LINES);
    let mut shown = number_lines(text, first, count);
    if shown.lines.end < lines.end.min(shown.total + 1) {
        shown.text.push_str("…\n");
    }
    shown.text
}

/// Cuts a line that is too long, and appends its full length.
pub(super) fn cut_line(line: &str) -> Cow<'_, str> {
    // A line has at most as many characters as bytes, and its number of bytes is already known.
    if line.len() <= MAX_LINE_CHARS {
        return Cow::Borrowed(line);
    }
    match line.char_indices().nth(MAX_LINE_CHARS) {
        None => Cow::Borrowed(line),
        Some((at, _)) => {
            let all = line.chars().count();
            Cow::Owned(format!("{} … [{all} characters in this line]", &line[..at]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_within_the_limits() {
        let shown = number_lines("a\nb\nc\n", 2, 10);
        assert_eq!((&*shown.text, shown.lines, shown.total), ("2\tb\n3\tc\n", 2..4, 3));
        assert_eq!(number_lines("a\n", 9, 10).lines, 9..9);
        let long = "x".repeat(100).repeat(40) + "\n";
        let shown = number_lines(&long.repeat(100), 1, MAX_LINES);
        assert!(shown.text.len() <= MAX_BYTES, "{}", shown.text.len());
        assert!(shown.text.contains("[4000 characters in this line]"));
        assert_eq!(number_lines(&"y\n".repeat(3000), 1, 3000).lines, 1..MAX_LINES + 1);
    }

    #[test]
    fn a_change_is_shown_with_its_surroundings() {
        let text = (1..=200).map(|n| format!("l{n}\n")).collect::<Vec<_>>().concat();
        assert_eq!(show_change(&text, &(1..2)), "1\tl1\n2\tl2\n3\tl3\n4\tl4\n");
        let shown = show_change(&text, &(10..150));
        assert!(shown.starts_with("7\tl7\n") && shown.ends_with("\n…\n"), "{shown}");
        assert_eq!(show_change(&text, &(200..201)).lines().count(), 4);
    }
}
