//! Text with its style, and rows of such text as sent to a terminal.

use std::fmt::Write as _;

use crate::cli::text_width::columns;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextStyle {
    pub(crate) bold: bool,
    pub(crate) faint: bool,
    pub(crate) italic: bool,
    pub(crate) underlined: bool,
    pub(crate) struck: bool,
    pub(crate) code: bool,
}

impl TextStyle {
    pub(crate) const PLAIN: Self = Self {
        bold: false,
        faint: false,
        italic: false,
        underlined: false,
        struck: false,
        code: false,
    };
    pub(crate) const FAINT: Self = Self { faint: true, ..Self::PLAIN };
    pub(crate) const CODE: Self = Self { code: true, ..Self::PLAIN };

    /// Returns the codes of the style, separated by `;`. Empty for plain text.
    fn codes(self) -> String {
        let codes = [
            (self.bold, "1"),
            (self.faint, "2"),
            (self.italic, "3"),
            (self.underlined, "4"),
            (self.struck, "9"),
            (self.code, "36"),
        ];
        let set: Vec<&str> = codes.iter().filter(|(is_set, _)| *is_set).map(|it| it.1).collect();
        set.join(";")
    }
}

/// A text in one style. Its control characters have been replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) style: TextStyle,
    pub(crate) text: String,
}

/// One row, not wider than the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StyledRow {
    pub(crate) spans: Vec<Span>,
}

impl StyledRow {
    pub(crate) fn push(&mut self, style: TextStyle, text: &str) {
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.spans.push(Span { style, text: text.to_owned() }),
        }
    }

    pub(crate) fn columns(&self) -> usize {
        spans_columns(&self.spans)
    }

    pub(crate) fn to_screen(&self, has_colour: bool) -> ScreenRow {
        let mut text = String::new();
        for span in &self.spans {
            let codes = span.style.codes();
            // Writing to a string cannot fail.
            let _infallible = if has_colour && !codes.is_empty() {
                write!(text, "\x1b[{codes}m{}\x1b[0m", span.text)
            } else {
                write!(text, "{}", span.text)
            };
        }
        ScreenRow { text, columns: self.columns() }
    }
}

pub(crate) fn spans_columns(spans: &[Span]) -> usize {
    spans.iter().map(|span| columns(&span.text)).sum()
}

/// A row with its escape sequences, all of which are ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenRow {
    pub(crate) text: String,
    pub(crate) columns: usize,
}
