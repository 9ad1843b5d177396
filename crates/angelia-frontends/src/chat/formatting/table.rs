//! Lays out a table as monospaced text, because no chat platform shows tables everywhere.

use unicode_width::UnicodeWidthStr as _;

#[derive(Debug, Default)]
pub(super) struct TableRows {
    rows: Vec<Vec<String>>,
}

impl TableRows {
    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn push_cell(&mut self, text: &str) {
        // A cell has only one line here.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(row) = self.rows.last_mut() {
            row.push(text);
        }
    }

    /// Returns one line per row. The first row is the header.
    pub(super) fn layout(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| {
                format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())))
            });
            let line = cells.collect::<Vec<_>>().join(" | ");
            lines.push(line.trim_end().to_owned());
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                lines.push(rule.join("-+-"));
            }
        }
        lines.join("\n")
    }
}
