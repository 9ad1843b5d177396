//! Tables for lists, cut to the width of a terminal but complete in a pipe.

use std::io::IsTerminal as _;

use super::{
    print,
    text_width::{columns, fit},
};

/// Number of spaces between two columns.
const GAP: usize = 2;

/// Shown in an empty cell, so that every row has every column.
const EMPTY: &str = "-";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) header: &'static str,
    /// The width to which a narrow terminal may cut the cells; `None` if they are never cut.
    pub(crate) min_width: Option<usize>,
    /// If there is not enough room, the columns with the highest rank are dropped first.
    pub(crate) rank: u8,
}

#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row. Replaces control characters, because they would break the line.
    pub(crate) fn push(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| {
            let visible = |char: char| if char.is_control() { ' ' } else { char };
            let cell: String = cell.trim().chars().map(visible).collect();
            if cell.is_empty() { EMPTY.to_owned() } else { cell }
        }));
    }

    /// Returns the header and the rows as lines. `width` is the terminal's; without it, nothing is
    /// cut or dropped.
    pub(crate) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let widths = match width {
            None => std::array::from_fn(|index| Some(self.natural_width(index))),
            Some(width) => self.fit_columns(width),
        };
        let header = self.columns.map(|column| column.header.to_owned());
        let mut lines = vec![write_row(&header, &widths)];
        lines.extend(self.rows.iter().map(|row| write_row(row, &widths)));
        lines
    }

    /// Returns the lines as bytes, for the terminal or pipe at stdout. Empty if there are no rows.
    pub(crate) fn render(&self) -> Vec<u8> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let mut text = self.lines(terminal_width()).join("\n");
        text.push('\n');
        text.into_bytes()
    }

    fn natural_width(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|row| columns(&row[index]));
        cells.fold(columns(self.columns[index].header), usize::max)
    }

    /// Returns the width of each column; `None` if it is dropped.
    fn fit_columns(&self, width: usize) -> [Option<usize>; N] {
        let natural: [usize; N] = std::array::from_fn(|index| self.natural_width(index));
        let mut widths: [Option<usize>; N] = std::array::from_fn(|index| {
            let min = self.columns[index].min_width.unwrap_or(usize::MAX);
            Some(natural[index].min(min.max(columns(self.columns[index].header))))
        });
        let mut by_rank: Vec<usize> = (0..N).collect();
        by_rank.sort_by_key(|index| self.columns[*index].rank);
        for index in by_rank.iter().skip(1).rev() {
            if total(&widths) <= width {
                break;
            }
            widths[*index] = None;
        }
        for index in by_rank {
            let room = width.saturating_sub(total(&widths));
            if let Some(narrow) = &mut widths[index] {
                *narrow = natural[index].min(*narrow + room);
            }
        }
        widths
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let kept = widths.iter().flatten();
    kept.clone().sum::<usize>() + GAP * kept.count().saturating_sub(1)
}

fn write_row(cells: &[String], widths: &[Option<usize>]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let Some(width) = width else { continue };
        let cell = fit(cell, *width);
        line.push_str(&cell);
        line.push_str(&" ".repeat((width + GAP).saturating_sub(columns(&cell))));
    }
    line.truncate(line.trim_end().len());
    line
}

/// Returns the width of the terminal if stdout is one.
pub(crate) fn terminal_width() -> Option<usize> {
    /// For terminals that do not report their width.
    const USUAL: u16 = 80;
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| size.ws_col);
    Some(usize::from(if columns == 0 { USUAL } else { columns }))
}

/// Tells a person how to see the rest of a list that ends with this entry.
pub(crate) fn note_more(command: &str, last: &str) {
    if terminal_width().is_some() {
        print::note(&format!("more: angelia {command} --before {last}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table<3> {
        let column = |header, min_width, rank| Column { header, min_width, rank };
        let mut table = Table::new([
            column("ID", None, 0),
            column("NAME", Some(5), 2),
            column("WORDS", Some(8), 1),
        ]);
        table.push(["0192abcd".into(), "a long name".into(), "first\twords\nof it".into()]);
        table.push(["0192abce".into(), String::new(), "修复登录页面的问题".into()]);
        table
    }

    #[test]
    fn a_pipe_gets_everything() {
        insta::assert_snapshot!(sample().lines(None).join("\n"), @r"
        ID        NAME         WORDS
        0192abcd  a long name  first words of it
        0192abce  -            修复登录页面的问题
        ");
    }

    #[test]
    fn a_terminal_gets_what_fits() {
        insta::assert_snapshot!(sample().lines(Some(32)).join("\n"), @r"
        ID        NAME   WORDS
        0192abcd  a lo…  first words of…
        0192abce  -      修复登录页面的…
        ");
        insta::assert_snapshot!(sample().lines(Some(20)).join("\n"), @r"
        ID        WORDS
        0192abcd  first wor…
        0192abce  修复登录…
        ");
        insta::assert_snapshot!(sample().lines(Some(5)).join("\n"), @r"
        ID
        0192abcd
        0192abce
        ");
        for width in 8..60 {
            for line in sample().lines(Some(width)) {
                assert!(columns(&line) <= width, "{line:?} at {width}");
            }
        }
    }
}
