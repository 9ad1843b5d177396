//! Splits a Markdown text that arrives in pieces into blocks: paragraphs, headings, list items, quotes,
//! tables, and single lines of fenced code. A block is emitted as soon as no later text can change it.
//! Decisions are made line by line, so that they do not depend on the pieces.

/// A block that is still open after this many bytes is ended, so that the work for each further piece of text
/// stays small.
const MAX_BLOCK_BYTES: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceBlock {
    pub(super) part: SourcePart,
    /// Whether an empty line precedes the block in the text.
    pub(super) is_after_gap: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourcePart {
    Markdown(String),
    /// A line of a fenced code block, without its line break.
    CodeLine(String),
}

#[derive(Debug, Default)]
pub(super) struct BlockSplitter {
    state: SplitState,
    /// The whole lines of the open block.
    block: String,
    /// The unfinished line.
    line: String,
    /// Empty lines that belong to the open block only if it continues.
    blanks: usize,
    /// Whether an empty line preceded the open block.
    is_after_gap: bool,
}

/// The kind of the open block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SplitState {
    /// There is no open block.
    #[default]
    Between,
    Paragraph,
    Quote,
    ListItem,
    IndentedCode,
    Fence(Fence),
}

/// The line that began a fenced code block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

impl BlockSplitter {
    /// Adds text and returns the blocks that are complete.
    pub(super) fn push(&mut self, mut text: &str) -> Vec<SourceBlock> {
        let mut done = Vec::new();
        while !text.is_empty() {
            let room = MAX_BLOCK_BYTES.saturating_sub(self.block.len() + self.line.len());
            let line_end = text.find('\n').map_or(text.len(), |place| place + 1);
            let taken = text.floor_char_boundary(line_end.min(room));
            if taken == 0 {
                self.cut(&mut done);
                continue;
            }
            self.line.push_str(&text[..taken]);
            text = &text[taken..];
            if self.line.ends_with('\n') {
                self.end_line(&mut done);
            }
        }
        done
    }

    pub(super) fn finish(&mut self) -> Vec<SourceBlock> {
        let mut done = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut done);
        }
        self.end_block(&mut done);
        *self = Self::default();
        done
    }

    /// Returns the incomplete block.
    pub(super) fn open_block(&self) -> Option<SourceBlock> {
        // Alone on a line, these characters may become any kind of mark, so they are not shown yet.
        let is_mark = self.line.trim().chars().all(|char| "-=*_+#`~>|.)".contains(char))
            || self.line.trim_end().chars().all(|char| char.is_ascii_digit());
        let line = if is_mark { "" } else { self.line.trim_end_matches('\r') };
        if let SplitState::Fence(fence) = self.state {
            let line = strip_indent(line, fence.indent).to_owned();
            let part = SourcePart::CodeLine(line);
            return (!is_mark).then_some(SourceBlock { part, is_after_gap: self.is_after_gap });
        }
        let mut text = self.block.clone();
        if !line.is_empty() {
            text.extend(std::iter::repeat_n('\n', self.blanks));
            text.push_str(line);
        }
        let is_after_gap = self.is_after_gap || (self.block.is_empty() && self.blanks > 0);
        let part = SourcePart::Markdown(text.clone());
        (!text.is_empty()).then_some(SourceBlock { part, is_after_gap })
    }

    fn end_line(&mut self, done: &mut Vec<SourceBlock>) {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_end_matches(['\n', '\r']);
        if let SplitState::Fence(fence) = self.state {
            self.handle_code_line(fence, line, done);
        } else if line.trim().is_empty() {
            self.handle_blank(done);
        } else if self.continues(line) {
            self.extend_block(line, done);
        } else {
            self.end_block(done);
            self.begin_block(line, done);
        }
    }

    fn handle_code_line(&mut self, fence: Fence, line: &str, done: &mut Vec<SourceBlock>) {
        if fence.is_closed_by(line) {
            self.state = SplitState::Between;
        } else {
            self.emit(SourcePart::CodeLine(strip_indent(line, fence.indent).to_owned()), done);
        }
    }

    fn handle_blank(&mut self, done: &mut Vec<SourceBlock>) {
        self.blanks += 1;
        match self.state {
            // Both may continue after an empty line.
            SplitState::ListItem | SplitState::IndentedCode => {}
            _ => self.end_block(done),
        }
    }

    /// Returns whether a non-empty line belongs to the open block.
    fn continues(&self, line: &str) -> bool {
        let starts_other = || {
            fence_start(line).is_some()
                || is_heading(line)
                || is_rule(line)
                || line.trim_start().starts_with('>')
        };
        match self.state {
            SplitState::Between | SplitState::Fence(_) => false,
            SplitState::Paragraph => {
                is_underline(line)
                    || !(starts_other() || list_marker(line).is_some_and(|it| it.interrupts))
            }
            SplitState::Quote => {
                line.trim_start().starts_with('>')
                    || !(starts_other() || list_marker(line).is_some())
            }
            SplitState::ListItem if indent(line) >= 2 => true,
            SplitState::ListItem => {
                self.blanks == 0 && !starts_other() && list_marker(line).is_none()
            }
            SplitState::IndentedCode => indent(line) >= 4,
        }
    }

    fn extend_block(&mut self, line: &str, done: &mut Vec<SourceBlock>) {
        self.block.extend(std::iter::repeat_n('\n', std::mem::take(&mut self.blanks)));
        self.block.push_str(line);
        self.block.push('\n');
        if self.state == SplitState::Paragraph && is_underline(line) {
            self.end_block(done);
        }
    }

    fn begin_block(&mut self, line: &str, done: &mut Vec<SourceBlock>) {
        self.is_after_gap |= std::mem::take(&mut self.blanks) > 0;
        if let Some(fence) = fence_start(line) {
            self.state = SplitState::Fence(fence);
            return;
        }
        self.block = format!("{line}\n");
        self.state = if is_heading(line) || is_rule(line) {
            self.end_block(done);
            return;
        } else if indent(line) >= 4 {
            SplitState::IndentedCode
        } else if line.trim_start().starts_with('>') {
            SplitState::Quote
        } else if list_marker(line).is_some() {
            SplitState::ListItem
        } else {
            SplitState::Paragraph
        };
    }

    /// Emits the open block. Empty lines after it belong to the gap before the next one.
    fn end_block(&mut self, done: &mut Vec<SourceBlock>) {
        self.state = SplitState::Between;
        if !self.block.is_empty() {
            let text = std::mem::take(&mut self.block);
            self.emit(SourcePart::Markdown(text), done);
        }
    }

    /// Ends a block that has become too long, at the last space of its last line.
    fn cut(&mut self, done: &mut Vec<SourceBlock>) {
        let end = self.line.rfind(' ').map_or(self.line.len(), |place| place + 1);
        let rest = self.line.split_off(end);
        let line = std::mem::replace(&mut self.line, rest);
        if let SplitState::Fence(_) = self.state {
            self.emit(SourcePart::CodeLine(line), done);
            return;
        }
        self.block.extend(std::iter::repeat_n('\n', std::mem::take(&mut self.blanks)));
        self.block.push_str(&line);
        self.end_block(done);
    }

    fn emit(&mut self, part: SourcePart, done: &mut Vec<SourceBlock>) {
        let is_after_gap = std::mem::take(&mut self.is_after_gap);
        done.push(SourceBlock { part, is_after_gap });
    }
}

impl Fence {
    fn is_closed_by(self, line: &str) -> bool {
        let text = line.trim();
        indent(line) < 4
            && text.chars().count() >= self.length
            && text.chars().all(|char| char == self.mark)
    }
}

fn fence_start(line: &str) -> Option<Fence> {
    let text = line.trim_start();
    let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = text.chars().take_while(|char| *char == mark).count();
    let info = &text[length..];
    let is_fence = indent(line) < 4 && length >= 3 && !(mark == '`' && info.contains('`'));
    is_fence.then_some(Fence { mark, length, indent: indent(line) })
}

/// Returns the width of the white space before a line's text.
fn indent(line: &str) -> usize {
    let mut columns = 0;
    for char in line.chars() {
        match char {
            ' ' => columns += 1,
            '\t' => columns += 4 - columns % 4,
            _ => break,
        }
    }
    columns
}

fn strip_indent(line: &str, limit: usize) -> &str {
    let spaces = line.bytes().take(limit).take_while(|byte| *byte == b' ').count();
    &line[spaces..]
}

fn is_heading(line: &str) -> bool {
    let text = line.trim_start();
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    let after = &text[level..];
    indent(line) < 4
        && (1..=6).contains(&level)
        && (after.is_empty() || after.starts_with([' ', '\t']))
}

/// Returns whether the line turns the paragraph before it into a heading.
fn is_underline(line: &str) -> bool {
    let text = line.trim();
    let is_all = |mark: char| text.chars().all(|char| char == mark);
    indent(line) < 4 && !text.is_empty() && (is_all('=') || is_all('-'))
}

fn is_rule(line: &str) -> bool {
    let marks: Vec<char> = line.chars().filter(|char| !char.is_whitespace()).collect();
    let is_all = |mark: char| marks.iter().all(|char| *char == mark);
    indent(line) < 4 && marks.len() >= 3 && (is_all('-') || is_all('*') || is_all('_'))
}

struct ListMarker {
    /// Whether the marker ends a preceding paragraph.
    interrupts: bool,
}

fn list_marker(line: &str) -> Option<ListMarker> {
    let text = line.trim_start();
    if indent(line) >= 4 {
        return None;
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let after = match digits {
        0 => text.strip_prefix(['-', '*', '+'])?,
        1..=9 => text[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let is_empty = after.trim().is_empty();
    let is_marker = is_empty || after.starts_with([' ', '\t']);
    let interrupts = !is_empty && (digits == 0 || &text[..digits] == "1");
    is_marker.then_some(ListMarker { interrupts })
}
