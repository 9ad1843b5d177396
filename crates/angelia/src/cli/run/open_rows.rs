//! The rows at the end of the answer that may still change. They are redrawn when they change; rows
//! that have scrolled off the screen are never touched. Pure: returns the text to write.

use crate::cli::markdown::ScreenRow;

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScreenSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// The open rows on the screen. The cursor is at the end of the last one.
#[derive(Debug, Default)]
pub(crate) struct OpenRows {
    drawn: Vec<ScreenRow>,
    /// Number of rows omitted above them, because all of them would not fit on the screen.
    skipped: usize,
}

impl OpenRows {
    pub(crate) fn is_empty(&self) -> bool {
        self.drawn.is_empty()
    }

    /// Replaces the open rows: `done` are final, `open` are the new open ones. Rows that are
    /// already drawn stay unchanged.
    pub(crate) fn replace(
        &mut self,
        done: &[ScreenRow],
        mut open: Vec<ScreenRow>,
        size: ScreenSize,
    ) -> String {
        // Use one row less than the screen has, so that the first row is still there to be
        // overwritten.
        let limit = size.rows.saturating_sub(1).max(1);
        let skipped = open.len().saturating_sub(limit);
        open.drain(..skipped);
        let new: Vec<&ScreenRow> = done.iter().chain(&open).collect();
        let is_same_place = self.skipped == skipped && (skipped == 0 || done.is_empty());
        let mut kept = if is_same_place { self.count_same(&new) } else { 0 };
        if kept == new.len() && kept < self.drawn.len() && !open.is_empty() {
            // The cursor must be at the end of the last row.
            kept -= 1;
        }
        let mut out = self.erase_after(kept, size);
        let is_behind_row = kept > 0 && kept == self.drawn.len();
        let new = &new[kept..];
        if is_behind_row && (!new.is_empty() || open.is_empty()) {
            out.push('\n');
        }
        for (index, row) in new.iter().enumerate() {
            out.push_str(&row.text);
            if index + 1 < new.len() || open.is_empty() {
                out.push('\n');
            }
        }
        (self.drawn, self.skipped) = (open, skipped);
        out
    }

    /// Removes the open rows from the screen.
    pub(crate) fn erase(&self, size: ScreenSize) -> String {
        self.erase_after(0, size)
    }

    /// Redraws the rows after something else was written.
    pub(crate) fn redraw(&self) -> String {
        let rows: Vec<&str> = self.drawn.iter().map(|row| row.text.as_str()).collect();
        rows.join("\n")
    }

    /// Leaves the rows on the screen unchanged, and returns the text that moves the cursor below
    /// them.
    pub(crate) fn leave(&mut self) -> &'static str {
        let was_drawn = !std::mem::take(self).drawn.is_empty();
        if was_drawn { "\n" } else { "" }
    }

    /// Returns the number of drawn rows that stay unchanged.
    fn count_same(&self, new: &[&ScreenRow]) -> usize {
        self.drawn.iter().zip(new).take_while(|(old, new)| old == *new).count()
    }

    /// Erases the rows that are not kept, and moves to the start of the first of them.
    fn erase_after(&self, kept: usize, size: ScreenSize) -> String {
        if kept >= self.drawn.len() {
            return String::new();
        }
        // If the window became narrower, the terminal has wrapped the rows, and the cursor is at
        // their end.
        let taken = |row: &ScreenRow| row.columns.div_ceil(size.columns.max(1)).max(1);
        let above = self.drawn[kept..].iter().map(taken).sum::<usize>() - 1;
        erase_rows(above.min(size.rows.saturating_sub(1)))
    }
}

/// Returns the text that erases the cursor's row and those above it, and moves to the topmost one.
///
/// Erases row by row, because some terminals preserve a cleared screen: they would move the rows
/// into their history if the first one is at the top of the window.
pub(super) fn erase_rows(above: usize) -> String {
    format!("\r\x1b[K{}", "\x1b[A\x1b[K".repeat(above))
}
