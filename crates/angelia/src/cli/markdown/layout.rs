//! Converts one block of Markdown to rows.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{
    styled_text::{Span, StyledRow, TextStyle},
    table_layout::TableCells,
    wrap::{break_line, wrap_words},
};
use crate::cli::print::show_controls;

/// The options of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutOptions {
    /// Maximum number of columns in a row.
    pub(crate) width: usize,
    /// Whether colours and bold text are available. Otherwise the marks of the source are kept.
    pub(crate) has_colour: bool,
}

/// Inserted before every line of code.
const CODE_INDENT: &str = "  ";
const TAB_WIDTH: usize = 4;
/// Text that is nested too deeply to leave this width is not indented further.
const MIN_TEXT_WIDTH: usize = 16;

pub(super) struct BlockLayout {
    options: LayoutOptions,
    rows: Vec<StyledRow>,
    /// The quotes and list items around the text.
    containers: Vec<Container>,
    /// The number of the next item of each open list; `None` for a bulleted list.
    lists: Vec<Option<u64>>,
    inline: Vec<Span>,
    styles: Vec<TextStyle>,
    /// The open links and images.
    links: Vec<OpenLink>,
    /// Whether an empty row must precede the next block.
    needs_gap: bool,
    code: Option<String>,
    table: Option<TableCells>,
}

/// The text before each row of a quote or list item.
struct Container {
    first: Option<String>,
    rest: String,
}

struct OpenLink {
    address: String,
    /// Index into `inline` at which the link's text begins.
    begin: usize,
    is_image: bool,
}

impl BlockLayout {
    pub(super) fn new(options: LayoutOptions) -> Self {
        Self {
            options,
            rows: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            inline: Vec::new(),
            styles: vec![TextStyle::PLAIN],
            links: Vec::new(),
            needs_gap: false,
            code: None,
            table: None,
        }
    }

    pub(super) fn markdown(mut self, text: &str) -> Vec<StyledRow> {
        let known =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        for event in Parser::new_ext(text, known) {
            self.handle(event);
        }
        self.flush_text();
        self.rows
    }

    /// Lays out one line of fenced code.
    pub(super) fn code_line(mut self, line: &str) -> Vec<StyledRow> {
        self.push_code(line);
        self.rows
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.push_text(self.style(), &text),
            },
            Event::Code(text) => {
                self.push_mark("`");
                self.push_text(TextStyle { code: true, ..self.style() }, &text);
                self.push_mark("`");
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                self.push_text(self.style(), text.trim_end_matches('\n'));
                if text.ends_with('\n') {
                    self.push_break();
                }
            }
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.push_text(self.style(), &text);
            }
            Event::SoftBreak => self.push_text(self.style(), " "),
            Event::HardBreak => self.push_break(),
            Event::Rule => {
                self.begin_block();
                let rule = "─".repeat(self.text_width());
                self.push_row(&row_of(TextStyle::FAINT, &rule));
                self.needs_gap = true;
            }
            Event::TaskListMarker(is_done) => {
                self.push_text(self.style(), if is_done { "☑ " } else { "☐ " });
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.begin_block();
                if !self.options.has_colour {
                    self.push_text(TextStyle::PLAIN, &format!("{} ", "#".repeat(level as usize)));
                }
                let underlined = level == HeadingLevel::H1;
                self.push_style(|style| {
                    style.bold = true;
                    style.underlined = underlined;
                });
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.containers.push(Container { first: None, rest: "│ ".to_owned() });
            }
            Tag::CodeBlock(_) => {
                self.begin_block();
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                self.flush_text();
                self.lists.push(first);
            }
            Tag::Item => self.begin_item(),
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(TableCells::new(alignments));
            }
            Tag::Emphasis => {
                self.push_mark("*");
                self.push_style(|style| style.italic = true);
            }
            Tag::Strong => {
                self.push_mark("**");
                self.push_style(|style| style.bold = true);
            }
            Tag::Strikethrough => {
                self.push_mark("~~");
                self.push_style(|style| style.struck = true);
            }
            Tag::Link { dest_url, .. } => self.begin_link(&dest_url, false),
            Tag::Image { dest_url, .. } => self.begin_link(&dest_url, true),
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::BlockQuote(_) => {
                self.flush_text();
                self.containers.pop();
                self.needs_gap = true;
            }
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                for line in code.lines() {
                    self.push_code(line);
                }
                self.needs_gap = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush_text();
                // An item without text still gets its mark.
                if self.containers.last().is_some_and(|item| item.first.is_some()) {
                    self.push_row(&StyledRow::default());
                }
                self.containers.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(table) = &mut self.table {
                    table.push_cell(cell);
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    for row in table.lay_out(self.text_width()) {
                        self.push_row(&row);
                    }
                }
                self.needs_gap = true;
            }
            TagEnd::Emphasis => self.end_style("*"),
            TagEnd::Strong => self.end_style("**"),
            TagEnd::Strikethrough => self.end_style("~~"),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn style(&self) -> TextStyle {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_style(&mut self, change: impl FnOnce(&mut TextStyle)) {
        let mut style = self.style();
        change(&mut style);
        self.styles.push(style);
    }

    fn end_style(&mut self, mark: &str) {
        self.styles.pop();
        self.push_mark(mark);
    }

    /// Adds a mark of the source, unless a style replaces it.
    fn push_mark(&mut self, mark: &str) {
        if !self.options.has_colour {
            self.push_text(TextStyle::PLAIN, mark);
        }
    }

    /// Adds text of the source. Replaces control characters here, because entities can stand for them.
    fn push_text(&mut self, style: TextStyle, text: &str) {
        let text = show_controls(text).replace(['\n', '\t'], " ");
        match self.inline.last_mut() {
            Some(last) if last.style == style => last.text.push_str(&text),
            _ => self.inline.push(Span { style, text }),
        }
    }

    fn push_break(&mut self) {
        let style = self.style();
        self.inline.push(Span { style, text: "\n".to_owned() });
    }

    fn begin_link(&mut self, address: &str, is_image: bool) {
        if is_image {
            self.push_text(TextStyle::FAINT, "[image] ");
        }
        // Adjacent links must be separate spans.
        self.inline.push(Span { style: self.style(), text: String::new() });
        let begin = self.inline.len();
        self.links.push(OpenLink { address: address.to_owned(), begin, is_image });
        self.push_style(|style| style.underlined = !is_image);
    }

    fn end_link(&mut self) {
        self.styles.pop();
        let Some(link) = self.links.pop() else { return };
        let shown: String =
            self.inline.iter().skip(link.begin).map(|span| span.text.as_str()).collect();
        let is_shown = link.address == shown || link.address == format!("mailto:{shown}");
        if !is_shown && !link.address.is_empty() {
            let before = if shown.is_empty() && link.is_image { "" } else { " " };
            self.push_text(TextStyle::FAINT, &format!("{before}({})", link.address));
        }
    }

    fn begin_item(&mut self) {
        self.begin_block();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "• ".to_owned(),
        };
        let rest = " ".repeat(mark.chars().count());
        self.containers.push(Container { first: Some(mark), rest });
    }

    fn begin_block(&mut self) {
        self.flush_text();
        // The first text of an item follows its mark on the same row.
        let is_first = self.containers.last().is_some_and(|item| item.first.is_some());
        if std::mem::take(&mut self.needs_gap) && !is_first {
            self.push_row(&StyledRow::default());
        }
    }

    fn end_block(&mut self) {
        self.flush_text();
        self.needs_gap = true;
    }

    fn flush_text(&mut self) {
        let text = std::mem::take(&mut self.inline);
        if text.iter().all(|span| span.text.is_empty()) {
            return;
        }
        for row in wrap_words(&text, self.text_width()) {
            self.push_row(&row);
        }
    }

    fn push_code(&mut self, line: &str) {
        let line = expand_tabs(&show_controls(line));
        let width = self.text_width().saturating_sub(CODE_INDENT.len());
        for row in break_line(&line, TextStyle::CODE, width) {
            let mut indented = row_of(TextStyle::PLAIN, CODE_INDENT);
            indented.spans.extend(row.spans);
            self.push_row(&indented);
        }
    }

    /// Returns the number of columns that the containers leave for the text.
    fn text_width(&self) -> usize {
        let width = self.options.width;
        width.saturating_sub(self.prefix_columns()).max(width.min(MIN_TEXT_WIDTH))
    }

    fn prefix_columns(&self) -> usize {
        self.containers.iter().map(|one| one.rest.chars().count()).sum()
    }

    /// Adds a row with the prefixes of its containers. Omits the prefixes if they leave no room.
    fn push_row(&mut self, row: &StyledRow) {
        let mut prefix = String::new();
        for container in &mut self.containers {
            prefix.push_str(container.first.take().as_ref().unwrap_or(&container.rest));
        }
        let mut whole = StyledRow::default();
        let room = self.options.width.saturating_sub(row.columns());
        let prefix: String = prefix.chars().take(room).collect();
        let prefix = if row.spans.is_empty() { prefix.trim_end() } else { &prefix };
        if !prefix.is_empty() {
            whole.push(TextStyle::FAINT, prefix);
        }
        whole.spans.extend(row.spans.iter().cloned());
        self.rows.push(whole);
    }
}

fn row_of(style: TextStyle, text: &str) -> StyledRow {
    StyledRow { spans: vec![Span { style, text: text.to_owned() }] }
}

/// Replaces tabs with spaces up to the next tab stop.
fn expand_tabs(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut column = 0;
    for char in line.chars() {
        if char == '\t' {
            let spaces = TAB_WIDTH - column % TAB_WIDTH;
            out.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        } else {
            out.push(char);
            column += 1;
        }
    }
    out
}
