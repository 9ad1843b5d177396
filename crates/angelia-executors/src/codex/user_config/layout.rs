//! The positions of table headers and values in a TOML text. Pure.

use std::ops::Range;

use toml_edit::{Document, Item, Key, Table, TomlError, Value};

use super::ConfigSyntaxError;

/// The header of a `[table]` or of one element of `[[an array]]`.
#[derive(Debug)]
pub(super) struct TableHeader {
    pub(super) path: Vec<String>,
    pub(super) start: usize,
}

#[derive(Debug)]
pub(super) struct Layout {
    /// In the order of the text.
    pub(super) headers: Vec<TableHeader>,
    /// The range from the start of each key to the end of its value, in the order of the text.
    pub(super) entries: Vec<Range<usize>>,
}

pub(super) fn parse(text: &str) -> Result<Document<&str>, ConfigSyntaxError> {
    Document::parse(text).map_err(|error| syntax_error(text, &error))
}

fn syntax_error(text: &str, error: &TomlError) -> ConfigSyntaxError {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    ConfigSyntaxError {
        line: before.matches('\n').count() + 1,
        column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
        message: error.message().lines().collect::<Vec<_>>().join(", "),
    }
}

impl Layout {
    pub(super) fn of(document: &Document<&str>) -> Self {
        let mut layout = Self { headers: Vec::new(), entries: Vec::new() };
        layout.visit_table(document.as_table(), &mut Vec::new());
        layout.headers.sort_by_key(|header| header.start);
        layout.entries.sort_by_key(|entry| entry.start);
        layout
    }

    /// Returns the position of the first table.
    pub(super) fn first_header(&self) -> Option<usize> {
        self.headers.first().map(|header| header.start)
    }

    /// Reports whether a position is inside a value, where a `#` does not start a comment.
    pub(super) fn is_inside_value(&self, at: usize) -> bool {
        let around = |entry: &Range<usize>| entry.start < at && at < entry.end;
        self.entries.iter().any(around)
    }

    fn visit_table(&mut self, table: &Table, path: &mut Vec<String>) {
        for (name, item) in table {
            let key = table.key(name).and_then(Key::span);
            path.push(name.to_owned());
            self.visit_item(item, key, path);
            path.pop();
        }
    }

    fn visit_item(&mut self, item: &Item, key: Option<Range<usize>>, path: &mut Vec<String>) {
        match item {
            Item::None => {}
            Item::Value(value) => self.add_entry(value, key),
            Item::Table(table) => {
                self.add_header(table, path);
                self.visit_table(table, path);
            }
            Item::ArrayOfTables(tables) => {
                for table in tables {
                    self.add_header(table, path);
                    self.visit_table(table, path);
                }
            }
        }
    }

    fn add_entry(&mut self, value: &Value, key: Option<Range<usize>>) {
        if let (Some(key), Some(value)) = (key, value.span()) {
            self.entries.push(key.start.min(value.start)..value.end);
        }
    }

    fn add_header(&mut self, table: &Table, path: &[String]) {
        let is_written = !table.is_implicit() && !table.is_dotted();
        if let Some(span) = table.span().filter(|_| is_written) {
            self.headers.push(TableHeader { path: path.to_vec(), start: span.start });
        }
    }
}
