//! Prepares the output of a command for the model: without terminal codes and progress, and without
//! the middle if it is long. Pure.

use std::{borrow::Cow, fmt::Write as _};

use super::excerpt::{MAX_BYTES, MAX_LINES, cut_line};

/// The share of a long output that is taken from its start. The rest is taken from its end, where
/// commands say what went wrong.
const HEAD_PERCENT: usize = 40;

/// A text that may have been cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CutText {
    pub(super) head: String,
    /// `None` if no line is left out.
    pub(super) tail: Option<String>,
    /// Neither a line nor the end of a long line is left out.
    pub(super) is_whole: bool,
}

impl CutText {
    /// Cuts out the middle of a text that exceeds the limits of a result.
    pub(super) fn new(text: &str) -> Self {
        let lines: Vec<_> = text.lines().map(cut_line).collect();
        let size = |line: &str| line.len() + 1;
        let all: usize = lines.iter().map(|line| size(line)).sum();
        if lines.len() <= MAX_LINES && all <= MAX_BYTES {
            let is_whole = lines.iter().all(|line| matches!(line, Cow::Borrowed(_)));
            return Self { head: joined(&lines), tail: None, is_whole };
        }
        let fitting = |lines: &mut dyn Iterator<Item = usize>, percent: usize| {
            let (mut count, mut bytes) = (0, 0);
            for line in lines {
                bytes += line;
                if bytes > MAX_BYTES * percent / 100 || count == MAX_LINES * percent / 100 {
                    break;
                }
                count += 1;
            }
            count
        };
        let head = fitting(&mut lines.iter().map(|line| size(line)), HEAD_PERCENT);
        let tail = fitting(&mut lines.iter().rev().map(|line| size(line)), 100 - HEAD_PERCENT);
        let tail = lines.len() - tail;
        let (head, tail) = (joined(&lines[..head]), joined(&lines[tail.max(head)..]));
        Self { head, tail: Some(tail), is_whole: false }
    }

    /// Joins both parts, with a remark where something is left out.
    pub(super) fn with_remark(self, remark: &str) -> String {
        match self.tail {
            None if self.is_whole => self.head,
            None => format!("{}… {remark} …\n", self.head),
            Some(tail) => format!("{}… {remark} …\n{tail}", self.head),
        }
    }
}

fn joined(lines: &[impl AsRef<str>]) -> String {
    let mut text = String::new();
    for line in lines {
        let _infallible = writeln!(text, "{}", line.as_ref());
    }
    text
}

/// Removes terminal codes, text that a carriage return overwrites, and control characters.
pub(super) fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => {
                // The line starts over, unless the text ends here.
                if rest.peek().is_some() {
                    plain.truncate(plain.rfind('\n').map_or(0, |at| at + 1));
                }
            }
            '\u{8}' => {
                if !plain.ends_with('\n') {
                    plain.pop();
                }
            }
            '\n' | '\t' => plain.push(c),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

/// Skips the rest of an escape sequence.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        // Parameters, then one final character.
        Some('[') => while rest.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
        // A string that ends with a bell or `ESC \`, or at the latest with its line.
        Some(']' | 'P' | '_' | '^' | 'X') => {
            while let Some(c) = rest.next_if(|c| *c != '\n') {
                if c == '\u{7}' || (c == '\u{1b}' && rest.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        Some('(' | ')' | '#' | '%') => {
            rest.next();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_for_terminals_is_removed() {
        let table = [
            ("\u{1b}[1;31mred\u{1b}[0m\n", "red\n"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]open\nnext", "\nnext"),
            ("10%\r50%\rdone\nx", "done\nx"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("50%\r", "50%"),
            ("ab\u{8}c", "ac"),
            ("bell\u{7}\0", "bell"),
            ("\u{1b}(Btext", "text"),
        ];
        for (text, expected) in table {
            assert_eq!(clean(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(clean(b"bad \xff"), "bad \u{fffd}");
    }

    #[test]
    fn a_long_output_is_cut_in_the_middle() {
        assert_eq!(
            CutText::new("a\nb"),
            CutText { head: "a\nb\n".into(), tail: None, is_whole: true }
        );
        let text = (0..5000).map(|n| format!("{n}\n")).collect::<Vec<_>>().concat();
        let cut = CutText::new(&text);
        assert!(cut.head.ends_with("\n799\n"), "{}", &cut.head[cut.head.len() - 20..]);
        assert!(cut.tail.as_ref().unwrap().starts_with("3800\n"));
        let wide = CutText::new(&format!("{}\n", "x".repeat(1000)).repeat(100));
        let all = wide.with_remark("cut");
        assert!(all.len() <= MAX_BYTES + 20, "{}", all.len());
    }

    proptest! {
        #[test]
        fn limits_always_hold(lines in proptest::collection::vec(0_usize..6000, 0..60)) {
            let text: String = lines.iter().map(|n| "é".repeat(*n) + "\n").collect();
            let cut = CutText::new(&text).with_remark("");
            prop_assert!(cut.len() <= MAX_BYTES + 16);
        }

        #[test]
        fn cleaning_leaves_no_control_characters(text in "[a\r\n\u{8}\u{1b}\\[\\]m;\\\\\u{7}]{0,30}") {
            let plain = clean(text.as_bytes());
            prop_assert!(plain.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }
    }
}
