//! Joins blocks of text into one text, with a blank line between them. Pure.

use std::borrow::Cow;

/// The state of one joined text.
#[derive(Clone, Debug, Default)]
pub struct Paragraphs {
    /// The text is not empty.
    said: bool,
    /// A new block has started and has no text yet.
    begins: bool,
    /// The number of line breaks at the end of the text.
    breaks: usize,
}

impl Paragraphs {
    /// Starts a new block.
    pub const fn begin(&mut self) {
        self.begins = true;
    }

    /// Returns the next piece of text, preceded by the line breaks that are missing before it.
    pub fn next<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let words = text.trim_start_matches('\n');
        let leading = text.len() - words.len();
        if words.is_empty() {
            // These line breaks may be the blank line itself.
            self.breaks += leading;
            return text.into();
        }
        let missing = match self.breaks + leading {
            _ if !(self.begins && self.said) => "",
            0 => "\n\n",
            1 => "\n",
            _ => "",
        };
        (self.said, self.begins) = (true, false);
        self.breaks = words.len() - words.trim_end_matches('\n').len();
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
        let mut paragraphs = Paragraphs::default();
        let mut all = String::new();
        for block in blocks {
            paragraphs.begin();
            for text in *block {
                all += &paragraphs.next(text);
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
