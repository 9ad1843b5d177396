//! Renders Markdown for a terminal while it arrives (`docs/design/0025-terminal.md`).
//!
//! - [`splitter`]: splits the text into final blocks and an open rest.
//! - [`layout`]: converts a block to rows, with [`table_layout`] for tables and [`wrap`] for words.
//! - [`styled_text`]: text with its style.
//!
//! Everything here is pure. The result depends only on the text, not on the pieces in which it arrives.

mod layout;
mod splitter;
mod styled_text;
mod table_layout;
#[cfg(test)]
pub(crate) mod tests;
mod wrap;

use self::{
    layout::BlockLayout,
    splitter::{BlockSplitter, SourceBlock, SourcePart},
    styled_text::{Span, TextStyle},
};
pub(crate) use self::{layout::LayoutOptions, styled_text::ScreenRow};
use super::print::show_controls;

/// Returns the rows of a whole text.
pub(crate) fn render(text: &str, options: LayoutOptions) -> Vec<ScreenRow> {
    let mut stream = MarkdownStream::default();
    let mut rows = stream.push(text, options);
    rows.extend(stream.finish(options));
    rows
}

/// Wraps a text without Markdown at word boundaries.
pub(crate) fn wrap_plain(text: &str, width: usize) -> Vec<String> {
    let span = Span { style: TextStyle::PLAIN, text: show_controls(text).into_owned() };
    wrap::wrap_words(&[span], width).iter().map(|row| row.to_screen(false).text).collect()
}

/// A Markdown text that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct MarkdownStream {
    splitter: BlockSplitter,
    has_rows: bool,
}

impl MarkdownStream {
    /// Adds text and returns the rows that are final.
    pub(crate) fn push(&mut self, text: &str, options: LayoutOptions) -> Vec<ScreenRow> {
        let blocks = self.splitter.push(text);
        self.lay_out(blocks, options)
    }

    /// Ends the text and returns the last rows.
    pub(crate) fn finish(&mut self, options: LayoutOptions) -> Vec<ScreenRow> {
        let blocks = self.splitter.finish();
        self.lay_out(blocks, options)
    }

    /// Returns the rows of the text that is not final yet.
    pub(crate) fn open_rows(&self, options: LayoutOptions) -> Vec<ScreenRow> {
        let Some(open) = self.splitter.open_block() else { return Vec::new() };
        let mut rows = Vec::new();
        lay_out_block(&open, self.has_rows, options, &mut rows);
        rows
    }

    fn lay_out(&mut self, blocks: Vec<SourceBlock>, options: LayoutOptions) -> Vec<ScreenRow> {
        let mut rows = Vec::new();
        for block in blocks {
            lay_out_block(&block, self.has_rows, options, &mut rows);
            self.has_rows |= !rows.is_empty();
        }
        rows
    }
}

/// Adds the rows of a block, preceded by an empty row where the text has empty lines.
fn lay_out_block(
    block: &SourceBlock,
    has_rows: bool,
    options: LayoutOptions,
    rows: &mut Vec<ScreenRow>,
) {
    let layout = BlockLayout::new(options);
    let own = match &block.part {
        SourcePart::Markdown(text) => layout.markdown(text),
        SourcePart::CodeLine(line) => layout.code_line(line),
    };
    if block.is_after_gap && has_rows && !own.is_empty() {
        rows.push(ScreenRow::default());
    }
    rows.extend(own.iter().map(|row| row.to_screen(options.has_colour)));
}
