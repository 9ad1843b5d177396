//! Lays out a table: columns side by side if they fit, otherwise one line per cell.

use pulldown_cmark::Alignment;

use super::{
    styled_text::{Span, StyledRow, TextStyle, spans_columns},
    wrap::wrap_words,
};

const SEPARATOR: &str = " │ ";
const SEPARATOR_COLUMNS: usize = 3;

/// A narrower column would be hard to read.
const MIN_COLUMN: usize = 8;

pub(super) struct TableCells {
    alignments: Vec<Alignment>,
    /// The first row is the header.
    rows: Vec<Vec<Vec<Span>>>,
    row: Vec<Vec<Span>>,
}

impl TableCells {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new() }
    }

    pub(super) fn push_cell(&mut self, cell: Vec<Span>) {
        self.row.push(cell);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    pub(super) fn lay_out(mut self, width: usize) -> Vec<StyledRow> {
        for cell in self.rows.first_mut().into_iter().flatten().flatten() {
            cell.style.bold = true;
        }
        match self.column_widths(width) {
            Some(widths) => self.side_by_side(&widths),
            None => self.one_below_the_other(width),
        }
    }

    /// Returns the widths of the columns, or `None` if they do not fit even with wrapped text.
    fn column_widths(&self, width: usize) -> Option<Vec<usize>> {
        let count = self.alignments.len();
        let mut widths = vec![1; count];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = spans_columns(cell).max(*width);
            }
        }
        let room = width.checked_sub(SEPARATOR_COLUMNS * count.saturating_sub(1))?;
        let least: usize = widths.iter().map(|width| MIN_COLUMN.min(*width)).sum();
        if least > room {
            return None;
        }
        // Shrink the widest column first.
        while widths.iter().sum::<usize>() > room {
            let widest = widths.iter_mut().max()?;
            *widest -= 1;
        }
        Some(widths)
    }

    fn side_by_side(&self, widths: &[usize]) -> Vec<StyledRow> {
        let mut out = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let empty = Vec::new();
            let cells: Vec<Vec<StyledRow>> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| wrap_words(row.get(column).unwrap_or(&empty), *width))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                out.push(self.line(&cells, line, widths));
            }
            if index == 0 {
                out.push(rule(widths));
            }
        }
        out
    }

    /// Returns one line of a table row.
    fn line(&self, cells: &[Vec<StyledRow>], line: usize, widths: &[usize]) -> StyledRow {
        let mut out = StyledRow::default();
        let last = widths.len().saturating_sub(1);
        for (column, width) in widths.iter().enumerate() {
            let cell = cells[column].get(line).cloned().unwrap_or_default();
            let padding = width.saturating_sub(cell.columns());
            let before = match self.alignments.get(column) {
                _ if cell.spans.is_empty() && column == last => 0,
                Some(Alignment::Right) => padding,
                Some(Alignment::Center) => padding / 2,
                _ => 0,
            };
            let after = if column == last { 0 } else { padding - before };
            out.push(TextStyle::PLAIN, &" ".repeat(before));
            out.spans.extend(cell.spans);
            out.push(TextStyle::PLAIN, &" ".repeat(after));
            if column < last {
                out.push(TextStyle::FAINT, SEPARATOR);
            }
        }
        out
    }

    /// Returns each row as lines of `header: cell`, with an empty line between rows.
    fn one_below_the_other(&self, width: usize) -> Vec<StyledRow> {
        let mut out = Vec::new();
        let Some((header, rows)) = self.rows.split_first() else { return out };
        if rows.is_empty() {
            return header.iter().flat_map(|cell| wrap_words(cell, width)).collect();
        }
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                out.push(StyledRow::default());
            }
            for (name, cell) in header.iter().zip(row) {
                let mut line = name.clone();
                line.push(Span { style: TextStyle::PLAIN, text: ": ".to_owned() });
                line.extend(cell.iter().cloned());
                out.extend(wrap_words(&line, width));
            }
        }
        out
    }
}

/// Returns the line below the header.
fn rule(widths: &[usize]) -> StyledRow {
    let parts: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut row = StyledRow::default();
    row.push(TextStyle::FAINT, &parts.join("─┼─"));
    row
}
