//! Parses Markdown into blocks of formatted text. Chats have neither nested lists nor headings, so list
//! items get their markers as text, and headings become bold lines.

use std::mem;

use angelia_core::ports::{BlockKind, RichBlock, RichText, Span, SpanStyle};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::table::TableRows;

/// The indentation of each level of a nested list.
const LIST_INDENT: &str = "  ";
const BULLET: &str = "• ";
const RULE: &str = "———";

pub fn parse_markdown(text: &str) -> RichText {
    let known = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut reader = MarkdownReader::default();
    for event in Parser::new_ext(text, known) {
        reader.handle(event);
    }
    reader.end_block();
    RichText { blocks: reader.blocks }
}

#[derive(Default)]
struct MarkdownReader {
    blocks: Vec<RichBlock>,
    spans: Vec<Span>,
    /// The styles that apply to the text, innermost last.
    styles: Vec<SpanStyle>,
    /// The number of the next item of each open list, or `None` for a bulleted list.
    lists: Vec<Option<u64>>,
    quotes: usize,
    code: Option<CodeText>,
    table: Option<TableRows>,
    /// Whether an empty line precedes the next block.
    needs_gap: bool,
}

struct CodeText {
    language: Option<String>,
    text: String,
}

impl MarkdownReader {
    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.text.push_str(&text),
                None => self.push(&text, self.style()),
            },
            Event::Code(text) => {
                let style = SpanStyle { code: true, ..self.style() };
                self.push(&text, style);
            }
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.push(&text, self.style()),
            Event::SoftBreak | Event::HardBreak => self.push("\n", self.style()),
            Event::Rule => {
                self.end_block();
                self.push(RULE, SpanStyle::default());
                self.end_block();
                self.needs_gap = true;
            }
            Event::TaskListMarker(is_done) => {
                self.push(if is_done { "☑ " } else { "☐ " }, SpanStyle::default());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.end_block();
                self.push_style(|style| style.bold = true);
            }
            Tag::BlockQuote(_) => {
                self.end_block();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.end_block();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split_whitespace().next().map(str::to_owned)
                    }
                    CodeBlockKind::Indented => None,
                };
                self.code = Some(CodeText { language, text: String::new() });
            }
            Tag::List(first) => {
                self.end_block();
                self.lists.push(first);
            }
            Tag::Item => self.begin_item(),
            Tag::Table(_) => {
                self.end_block();
                self.table = Some(TableRows::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.push_style(|style| style.italic = true),
            Tag::Strong => self.push_style(|style| style.bold = true),
            Tag::Strikethrough => self.push_style(|style| style.strike = true),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let address = dest_url.as_ref().into();
                self.push_style(|style| style.link = Some(address));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.end_block();
                self.needs_gap = true;
            }
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
                self.needs_gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.end_block();
                self.quotes = self.quotes.saturating_sub(1);
                self.needs_gap = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.end_block();
                self.lists.pop();
                self.needs_gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.end_block();
                self.needs_gap = false;
            }
            TagEnd::TableCell => {
                let cell: String =
                    mem::take(&mut self.spans).into_iter().map(|span| span.text).collect();
                if let Some(table) = &mut self.table {
                    table.push_cell(&cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.push_code_block(None, table.layout());
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn style(&self) -> SpanStyle {
        self.styles.last().cloned().unwrap_or_default()
    }

    fn push_style(&mut self, change: impl FnOnce(&mut SpanStyle)) {
        let mut style = self.style();
        change(&mut style);
        self.styles.push(style);
    }

    /// Ends a link. A link without text shows its address.
    fn end_link(&mut self) {
        let Some(SpanStyle { link: Some(address), .. }) = self.styles.last().cloned() else {
            return;
        };
        let has_words = self.spans.last().is_some_and(|span| {
            span.style.link.as_ref() == Some(&address) && !span.text.trim().is_empty()
        });
        if !has_words {
            self.push(&address, self.style());
        }
        self.styles.pop();
    }

    fn push(&mut self, text: &str, style: SpanStyle) {
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.spans.push(Span { text: text.to_owned(), style }),
        }
    }

    fn begin_item(&mut self) {
        self.end_block();
        let indent = LIST_INDENT.repeat(self.lists.len().saturating_sub(1));
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{indent}{number}. ");
                *number += 1;
                mark
            }
            _ => format!("{indent}{BULLET}"),
        };
        self.push(&mark, SpanStyle::default());
    }

    /// Ends the current block, if it has any spans.
    fn end_block(&mut self) {
        let mut spans = mem::take(&mut self.spans);
        // Line breaks between blocks come from the separators.
        if let Some(last) = spans.last_mut() {
            last.text.truncate(last.text.trim_end_matches('\n').len());
        }
        spans.retain(|span| !span.text.is_empty());
        if spans.is_empty() {
            return;
        }
        let kind = if self.quotes > 0 { BlockKind::Quote } else { BlockKind::Text };
        let has_gap = mem::take(&mut self.needs_gap);
        self.blocks.push(RichBlock { kind, spans, has_gap });
    }

    fn end_code(&mut self) {
        if let Some(CodeText { language, text }) = self.code.take() {
            self.push_code_block(language, text.trim_end_matches('\n').to_owned());
        }
    }

    fn push_code_block(&mut self, language: Option<String>, text: String) {
        self.end_block();
        if text.is_empty() {
            return;
        }
        let kind = BlockKind::Code { language: language.map(Into::into) };
        let spans = vec![Span { text, style: SpanStyle::default() }];
        let has_gap = mem::take(&mut self.needs_gap);
        self.blocks.push(RichBlock { kind, spans, has_gap });
        self.needs_gap = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str) -> Vec<String> {
        let blocks = parse_markdown(text).blocks;
        let show = |block: &RichBlock| {
            let kind = match &block.kind {
                BlockKind::Text => "text".to_owned(),
                BlockKind::Quote => "quote".to_owned(),
                BlockKind::Code { language } => {
                    format!("code {}", language.as_deref().unwrap_or("-"))
                }
            };
            let spans: Vec<String> = block.spans.iter().map(show_span).collect();
            format!("{}{kind}: {}", if block.has_gap { "+" } else { "" }, spans.concat())
        };
        blocks.iter().map(show).collect()
    }

    fn show_span(span: &Span) -> String {
        let mut marks = String::new();
        for (is_set, mark) in [
            (span.style.bold, 'b'),
            (span.style.italic, 'i'),
            (span.style.strike, 's'),
            (span.style.code, 'c'),
        ] {
            marks.extend(is_set.then_some(mark));
        }
        if let Some(link) = &span.style.link {
            marks.push_str(link);
        }
        let text = span.text.replace('\n', "⏎");
        if marks.is_empty() { text } else { format!("[{marks}|{text}]") }
    }

    #[test]
    fn blocks_and_styles_are_read() {
        let text = "# Head *one*\n\nSome **bold** and `code`,\nnext line.\n\n- a\n  1. b ~~no~~\n  2. c\n- [x] d\n\n\
                    > said\n> so\n\n```rust ignore\nfn main() {}\n```\n\n[docs](http://d) ![](http://i)\n\n---\n\n<br> end";
        insta::assert_snapshot!(outline(text).join("\n"), @r"
        text: [b|Head ][bi|one]
        +text: Some [b|bold] and [c|code],⏎next line.
        +text: • a
        text:   1. b [s|no]
        text:   2. c
        text: • ☑ d
        +quote: said⏎so
        +code rust: fn main() {}
        +text: [http://d|docs] [http://i|http://i]
        +text: ———
        +text: <br> end
        ");
    }

    #[test]
    fn tables_become_lines_of_one_width() {
        let text = "| a | long head |\n|---|---|\n| 漢字 | `x` |\n| 1 |\n";
        insta::assert_snapshot!(outline(text).join("\n").replace('⏎', "\n"), @r"
        code -: a    | long head
        -----+----------
        漢字 | x
        1    |
        ");
    }

    #[test]
    fn an_answer_that_is_not_complete_is_shown_as_far_as_it_is() {
        assert_eq!(outline("```sh\nls"), ["code sh: ls"]);
        assert_eq!(outline("a **b"), ["text: a **b"]);
        assert_eq!(outline(""), Vec::<String>::new());
    }
}
