//! Finds Angelia's lines in a `config.toml` and removes them. Pure.
//!
//! ```toml
//! default_permissions = ":workspace" # angelia codex
//! # >>> angelia codex enable: …
//! [mcp_servers.docs] # angelia codex
//! command = "docs"
//! # <<< angelia codex: mcp_servers.docs
//! ```
//!
//! Each of Angelia's lines or tables carries its own marker. Begin and end markers alone would not
//! be enough, because Codex edits this file too, and inserts its additions in its own order, even
//! between the two. When Codex rewrites the MCP servers, it drops their comments, and with them the
//! line markers and the begin marker. The end marker therefore lists the names of Angelia's tables.

use std::ops::Range;

use toml_edit::Key;

use super::{
    ConfigSyntaxError,
    layout::{self, Layout, TableHeader},
};

/// The marks on the lines of one edit. Two commands write to the file, and neither touches the
/// other's lines.
#[derive(Debug)]
pub(super) struct EditMarks {
    /// At the end of a line.
    pub(super) line: &'static str,
    pub(super) begin: &'static str,
    begin_prefix: &'static str,
    pub(super) end: &'static str,
    end_prefix: &'static str,
    /// The edit's only line outside of any table.
    pub(super) top_line: Option<&'static str>,
}

/// `angelia codex enable`.
pub(super) const ENABLE: EditMarks = EditMarks {
    line: "# angelia codex",
    begin: "# >>> angelia codex enable: ours down to `<<<`, changes in it are lost; \
            `angelia codex disable` takes it away",
    begin_prefix: "# >>> angelia codex",
    end: "# <<< angelia codex: ",
    end_prefix: "# <<< angelia codex",
    top_line: Some("default_permissions = \":workspace\" # angelia codex"),
};

/// `angelia setup codex --write`.
pub(super) const SETUP: EditMarks = EditMarks {
    line: "# angelia setup codex",
    begin: "# >>> angelia setup codex: ours down to `<<<`, changes in it are lost; \
            `angelia setup codex --undo` takes it away",
    begin_prefix: "# >>> angelia setup codex",
    end: "# <<< angelia setup codex: ",
    end_prefix: "# <<< angelia setup codex",
    top_line: None,
};

/// Flags after the begin marker, without which the original text could not be restored.
pub(super) const NEW_FILE_FLAG: &str = " [new file]";
pub(super) const OPEN_LINE_FLAG: &str = " [open line]";

/// Returns the text without the settings of `angelia codex enable`, or `None` if that command
/// created the file.
pub fn without_angelia_config(text: &str) -> Result<Option<String>, ConfigSyntaxError> {
    without_edit(text, &ENABLE)
}

/// Returns the text without the lines with these marks, or `None` if that edit created the file.
pub(super) fn without_edit(
    text: &str,
    marks: &EditMarks,
) -> Result<Option<String>, ConfigSyntaxError> {
    let document = layout::parse(text)?;
    let layout = Layout::of(&document);
    let found = BlockMarkers::of(text, &layout, marks);
    let mut ours = found.lines.clone();
    for (index, header) in layout.headers.iter().enumerate() {
        if found.is_ours(header) {
            let next = layout.headers.get(index + 1).map(|next| next.start);
            ours.push(table_extent(text, &layout, header.start, next.or(found.end)));
        }
    }
    // Copy everything between Angelia's ranges.
    ours.sort_by_key(|range| range.start);
    let mut rest = String::with_capacity(text.len());
    let (mut from, mut before_block) = (0, None);
    for range in ours {
        rest.push_str(text.get(from..range.start).unwrap_or_default());
        if found.begin == Some(range.start) {
            before_block = Some(rest.len());
        }
        from = from.max(range.end);
    }
    rest.push_str(text.get(from..).unwrap_or_default());
    // The line break before the block is Angelia's too, unless more text follows the block.
    if found.open_line && before_block == Some(rest.len()) {
        let shorter = rest.strip_suffix('\n').unwrap_or(&rest);
        let shorter = shorter.strip_suffix('\r').unwrap_or(shorter);
        rest.truncate(shorter.len());
    }
    if let Err(broken) = layout::parse(&rest) {
        return Err(removal_error(text, found.end, &broken));
    }
    Ok((!(found.new_file && rest.is_empty())).then_some(rest))
}

/// Explains why removing the block would break the file. Settings after the block belong to its
/// last table. Without that table they would fall into one of the user's tables, where they may not
/// fit.
fn removal_error(text: &str, end: Option<usize>, broken: &ConfigSyntaxError) -> ConfigSyntaxError {
    let before = text.get(..end.unwrap_or(0)).unwrap_or_default();
    ConfigSyntaxError {
        line: before.matches('\n').count() + 1,
        column: 1,
        message: format!(
            "removing Angelia's part would break the rest ({}); move the settings after that part \
             to where they belong",
            broken.message
        ),
    }
}

/// Returns the range from a table's header line to the line of its last entry. Comments and empty
/// lines after that are the user's.
fn table_extent(text: &str, layout: &Layout, header: usize, before: Option<usize>) -> Range<usize> {
    let before = before.filter(|before| *before > header);
    let inside = header..before.unwrap_or(text.len());
    let entries = layout.entries.iter();
    let last =
        entries.rev().find(|entry| inside.contains(&entry.start)).map_or(header, |entry| entry.end);
    line_start(text, header)..line_end(text, last)
}

fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the position after the line break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let behind = text.get(at..).unwrap_or_default();
    behind.find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Everything that marks lines in a text as belonging to one edit.
#[derive(Debug, Default)]
struct BlockMarkers {
    /// Angelia's lines that are not part of a table.
    lines: Vec<Range<usize>>,
    begin: Option<usize>,
    end: Option<usize>,
    new_file: bool,
    open_line: bool,
    /// The names of Angelia's tables.
    paths: Vec<Vec<String>>,
}

impl BlockMarkers {
    fn of(text: &str, layout: &Layout, marks: &EditMarks) -> Self {
        let mut found = Self::default();
        let mut named = Vec::new();
        for (range, line) in lines_with_ranges(text) {
            if layout.is_inside_value(range.start) {
                continue;
            }
            if line.starts_with(marks.begin_prefix) {
                found.begin.get_or_insert(range.start);
                found.new_file |= line.ends_with(NEW_FILE_FLAG);
                found.open_line |= line.ends_with(OPEN_LINE_FLAG);
                found.lines.push(range);
            } else if let Some(list) = line.strip_prefix(marks.end_prefix) {
                found.end = Some(range.start);
                let list = list.trim_start_matches(':').split_whitespace();
                named.extend(list.filter_map(parse_table_name));
                found.lines.push(range);
            } else if Some(line) == marks.top_line {
                found.lines.push(range);
            }
        }
        let marked = layout.headers.iter().filter(|header| {
            let line = text.get(header.start..line_end(text, header.start));
            line.is_some_and(|line| line.trim_end().ends_with(marks.line))
        });
        found.paths = marked.map(|header| header.path.clone()).collect();
        // The begin marker is gone only if Codex has rewritten the file. In that case the line
        // markers are gone too, so use the list in the end marker.
        if found.begin.is_none() {
            found.paths.extend(named);
        }
        found
    }

    /// Reports whether a table is Angelia's. Includes subtables, which would be meaningless on
    /// their own.
    fn is_ours(&self, header: &TableHeader) -> bool {
        self.paths.iter().any(|path| header.path.starts_with(path))
    }
}

/// Parses a table name as written between brackets.
fn parse_table_name(name: &str) -> Option<Vec<String>> {
    let keys = Key::parse(name).ok()?;
    Some(keys.iter().map(|key| key.get().to_owned()).collect())
}

/// Yields each line with its range, without the line break and without a leading byte order mark.
pub(super) fn lines_with_ranges(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut start = text_start(text);
    let text = text.get(start..).unwrap_or_default();
    text.split_inclusive('\n').map(move |line| {
        let range = start..start + line.len();
        start = range.end;
        let line = line.strip_suffix('\n').unwrap_or(line);
        (range, line.strip_suffix('\r').unwrap_or(line))
    })
}

/// Returns where the text begins, because some editors write a byte order mark before it.
pub(super) fn text_start(text: &str) -> usize {
    let mark = '\u{feff}';
    if text.starts_with(mark) { mark.len_utf8() } else { 0 }
}
