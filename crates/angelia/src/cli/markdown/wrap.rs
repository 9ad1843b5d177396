//! Breaks styled text into rows: between words, around wide characters, and inside a word only if
//! the word is wider than a row.

use unicode_segmentation::UnicodeSegmentation as _;

use super::styled_text::{Span, StyledRow, TextStyle};
use crate::cli::text_width::columns;

/// Punctuation that must not begin a row.
const CLOSING: &str = "、。，．：；！？）］｝」』】〉》〕”’…,.:;!?)]}";
/// Punctuation that must not end a row.
const OPENING: &str = "（［｛「『【〈《〔“‘([{";

/// One grapheme.
#[derive(Clone, Copy)]
struct Glyph<'a> {
    text: &'a str,
    style: TextStyle,
    columns: usize,
}

impl Glyph<'_> {
    fn is_wide(self) -> bool {
        self.columns > 1
    }

    fn is_in(self, set: &str) -> bool {
        set.contains(self.text)
    }
}

/// Wraps text into rows of up to `width` columns. `\n` ends a row.
pub(crate) fn wrap_words(spans: &[Span], width: usize) -> Vec<StyledRow> {
    let mut rows = RowWriter::new(width);
    let mut word: Vec<Glyph<'_>> = Vec::new();
    for glyph in glyphs(spans) {
        if glyph.text == "\n" {
            rows.write_word(&word);
            word.clear();
            rows.end_row();
        } else if glyph.text == " " {
            rows.write_word(&word);
            word.clear();
            rows.space = Some(glyph.style);
        } else {
            if word.last().is_some_and(|last| can_break(*last, glyph)) {
                rows.write_word(&word);
                word.clear();
            }
            word.push(glyph);
        }
    }
    rows.write_word(&word);
    rows.finish()
}

/// Breaks a line that keeps its spaces, such as a line of code, wherever a row is full.
pub(crate) fn break_line(text: &str, style: TextStyle, width: usize) -> Vec<StyledRow> {
    let mut rows = RowWriter::new(width);
    let spans = [Span { style, text: text.to_owned() }];
    for glyph in glyphs(&spans) {
        rows.write_glyph(glyph);
    }
    rows.end_row();
    rows.rows
}

fn glyphs(spans: &[Span]) -> impl Iterator<Item = Glyph<'_>> {
    spans.iter().flat_map(|span| {
        span.text.graphemes(true).map(|text| Glyph {
            text,
            style: span.style,
            columns: columns(text),
        })
    })
}

/// Returns whether a row may end between two glyphs that no space separates.
fn can_break(before: Glyph<'_>, after: Glyph<'_>) -> bool {
    (before.is_wide() || after.is_wide()) && !after.is_in(CLOSING) && !before.is_in(OPENING)
}

struct RowWriter {
    width: usize,
    rows: Vec<StyledRow>,
    row: StyledRow,
    used: usize,
    /// A space before the next word, if the word fits on the same row.
    space: Option<TextStyle>,
}

impl RowWriter {
    fn new(width: usize) -> Self {
        // A wide character needs two columns.
        let width = width.max(2);
        Self { width, rows: Vec::new(), row: StyledRow::default(), used: 0, space: None }
    }

    fn write_word(&mut self, word: &[Glyph<'_>]) {
        if word.is_empty() {
            return;
        }
        let columns: usize = word.iter().map(|glyph| glyph.columns).sum();
        let space = self.space.take().filter(|_| self.used > 0);
        if self.used > 0 && self.used + usize::from(space.is_some()) + columns > self.width {
            self.end_row();
        } else if let Some(style) = space {
            self.row.push(style, " ");
            self.used += 1;
        }
        for glyph in word {
            self.write_glyph(*glyph);
        }
    }

    fn write_glyph(&mut self, glyph: Glyph<'_>) {
        if self.used + glyph.columns > self.width {
            self.end_row();
        }
        // Joined emoji can be wider than a row.
        let (text, columns) =
            if glyph.columns > self.width { ("…", 1) } else { (glyph.text, glyph.columns) };
        self.row.push(glyph.style, text);
        self.used += columns;
    }

    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
        (self.used, self.space) = (0, None);
    }

    fn finish(mut self) -> Vec<StyledRow> {
        if self.used > 0 || self.rows.is_empty() {
            self.end_row();
        }
        self.rows
    }
}
