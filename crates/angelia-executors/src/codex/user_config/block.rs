//! Finds Angelia's lines in a `config.toml`, and removes them. Pure.
//!
//! ```toml
//! default_permissions = ":workspace" # angelia codex
//! # >>> angelia codex enable: …
//! [mcp_servers.docs] # angelia codex
//! command = "docs"
//! # <<< angelia codex: mcp_servers.docs
//! ```
//!
//! Every line or table of Angelia's carries a marker of its own. Begin and end markers alone would
//! not do: Codex edits this file as well, and inserts its additions where its own order wants them,
//! also in between. When Codex rewrites the MCP servers it drops their comments, and with them the
//! markers and the begin marker; therefore the end marker lists the names of Angelia's tables.

use std::ops::Range;

use toml_edit::Key;

use super::{
    ConfigSyntaxError,
    layout::{self, Layout, TableHeader},
};

/// The marker at the end of a line.
pub(super) const LINE_MARKER: &str = "# angelia codex";
pub(super) const BEGIN_MARKER: &str = "# >>> angelia codex enable: ours down to `<<<`, changes in it are lost; \
                                `angelia codex disable` takes it away";
/// Flags after the begin marker, without which the original text could not be restored.
pub(super) const NEW_FILE_FLAG: &str = " [new file]";
pub(super) const OPEN_LINE_FLAG: &str = " [open line]";
pub(super) const END_MARKER: &str = "# <<< angelia codex: ";

const BEGIN_PREFIX: &str = "# >>> angelia codex";
const END_PREFIX: &str = "# <<< angelia codex";

/// The only setting of Angelia's that is not in a table.
pub(super) const PERMISSIONS_LINE: &str = "default_permissions = \":workspace\" # angelia codex";

/// Returns the text without Angelia's settings, or `None` if Angelia created the file.
pub fn without_angelia_config(text: &str) -> Result<Option<String>, ConfigSyntaxError> {
    let document = layout::parse(text)?;
    let layout = Layout::of(&document);
    let marks = BlockMarkers::of(text, &layout);
    let mut ours = marks.lines.clone();
    for (index, header) in layout.headers.iter().enumerate() {
        if marks.is_ours(header) {
            let next = layout.headers.get(index + 1).map(|next| next.start);
            ours.push(table_extent(text, &layout, header.start, next.or(marks.end)));
        }
    }
    // Copy everything between Angelia's ranges.
    ours.sort_by_key(|range| range.start);
    let mut rest = String::with_capacity(text.len());
    let (mut from, mut before_block) = (0, None);
    for range in ours {
        rest.push_str(text.get(from..range.start).unwrap_or_default());
        if marks.begin == Some(range.start) {
            before_block = Some(rest.len());
        }
        from = from.max(range.end);
    }
    rest.push_str(text.get(from..).unwrap_or_default());
    // The line break before the block is Angelia's too, unless more text follows the block.
    if marks.open_line && before_block == Some(rest.len()) {
        let shorter = rest.strip_suffix('\n').unwrap_or(&rest);
        let shorter = shorter.strip_suffix('\r').unwrap_or(shorter);
        rest.truncate(shorter.len());
    }
    if let Err(broken) = layout::parse(&rest) {
        return Err(removal_error(text, marks.end, &broken));
    }
    Ok((!(marks.new_file && rest.is_empty())).then_some(rest))
}

/// Explains why removing the block would break the file: settings after the block belong to its
/// last table, and without that table they would fall into one of the user's, where they may not
/// fit.
fn removal_error(text: &str, end: Option<usize>, broken: &ConfigSyntaxError) -> ConfigSyntaxError {
    let before = text.get(..end.unwrap_or(0)).unwrap_or_default();
    ConfigSyntaxError {
        line: before.matches('\n').count() + 1,
        column: 1,
        message: format!(
            "without Angelia's part the rest would be broken ({}); move what stands behind that \
             part to where it belongs",
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

/// Everything that marks lines as Angelia's.
#[derive(Debug, Default)]
struct BlockMarkers {
    /// Lines of Angelia's that are not part of a table.
    lines: Vec<Range<usize>>,
    begin: Option<usize>,
    end: Option<usize>,
    new_file: bool,
    open_line: bool,
    /// Names of Angelia's tables.
    paths: Vec<Vec<String>>,
}

impl BlockMarkers {
    fn of(text: &str, layout: &Layout) -> Self {
        let mut marks = Self::default();
        let mut named = Vec::new();
        for (range, line) in lines_with_ranges(text) {
            if layout.is_inside_value(range.start) {
                continue;
            }
            if line.starts_with(BEGIN_PREFIX) {
                marks.begin.get_or_insert(range.start);
                marks.new_file |= line.ends_with(NEW_FILE_FLAG);
                marks.open_line |= line.ends_with(OPEN_LINE_FLAG);
                marks.lines.push(range);
            } else if let Some(list) = line.strip_prefix(END_PREFIX) {
                marks.end = Some(range.start);
                let list = list.trim_start_matches(':').split_whitespace();
                named.extend(list.filter_map(parse_table_name));
                marks.lines.push(range);
            } else if line == PERMISSIONS_LINE {
                marks.lines.push(range);
            }
        }
        let marked = layout.headers.iter().filter(|header| {
            let line = text.get(header.start..line_end(text, header.start));
            line.is_some_and(|line| line.trim_end().ends_with(LINE_MARKER))
        });
        marks.paths = marked.map(|header| header.path.clone()).collect();
        // The begin marker is gone only if Codex has rewritten the file; the line markers are then
        // gone too, so the list in the end marker counts.
        if marks.begin.is_none() {
            marks.paths.extend(named);
        }
        marks
    }

    /// Includes subtables of Angelia's tables, which would mean nothing without them.
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

/// Returns where the text begins: some editors write a byte order mark before it.
pub(super) fn text_start(text: &str) -> usize {
    let mark = '\u{feff}';
    if text.starts_with(mark) { mark.len_utf8() } else { 0 }
}
