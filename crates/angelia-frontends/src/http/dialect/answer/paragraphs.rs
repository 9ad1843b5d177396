//! Joins blocks of text into one text, with a blank line between them. Pure.

use std::borrow::Cow;

/// The state of one joined text.
#[derive(Clone, Debug, Default)]
pub struct ParagraphJoiner {
    /// Whether there is any text so far.
    has_text: bool,
    /// Whether a new block has started but has no text yet.
    at_block_start: bool,
    /// The number of line breaks at the end of the text.
    trailing_breaks: usize,
}

impl ParagraphJoiner {
    pub const fn start_block(&mut self) {
        self.at_block_start = true;
    }

    /// Returns the next piece of text, preceded by any missing line breaks.
    pub fn join_next<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let words = text.trim_start_matches('\n');
        let leading = text.len() - words.len();
        if words.is_empty() {
            // These line breaks may be the blank line itself.
            self.trailing_breaks += leading;
            return text.into();
        }
        let missing = match self.trailing_breaks + leading {
            _ if !(self.at_block_start && self.has_text) => "",
            0 => "\n\n",
            1 => "\n",
            _ => "",
        };
        (self.has_text, self.at_block_start) = (true, false);
        self.trailing_breaks = words.len() - words.trim_end_matches('\n').len();
        if missing.is_empty() {
            return text.into();
        }
        let (breaks, words) = text.split_at(leading);
        format!("{breaks}{missing}{words}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(blocks: &[&[&str]]) -> String {
        let mut paragraphs = ParagraphJoiner::default();
        let mut all = String::new();
        for block in blocks {
            paragraphs.start_block();
            for text in *block {
                all += &paragraphs.join_next(text);
            }
        }
        all
    }

    #[test]
    fn a_blank_line_stands_between_blocks() {
        assert_eq!(joined(&[&["a", "b"], &["c"]]), "ab\n\nc");
        assert_eq!(joined(&[&["a\n"], &["b"]]), "a\n\nb");
        assert_eq!(joined(&[&["a", "\n", "\n"], &["b"]]), "a\n\nb");
        assert_eq!(joined(&[&["a"], &["\n", "\nb"]]), "a\n\nb");
        assert_eq!(joined(&[&["a"], &["\n\nb"]]), "a\n\nb");
        assert_eq!(joined(&[&[], &["a"], &["", "b"], &[]]), "a\n\nb");
        assert_eq!(joined(&[&["\n", "a"]]), "\na");
    }
}
