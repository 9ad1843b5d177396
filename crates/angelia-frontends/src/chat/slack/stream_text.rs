//! Writes formatted text as the Markdown of streams. Pure. A stream can only grow, so while the text is
//! still being written, only the part that further words cannot change is used.

use angelia_core::ports::{BlockKind, RichBlock, RichText, Span, SpanStyle};

use super::blocks::is_web_address;

/// The text of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamText {
    pub markdown: String,
    /// Whether the text has neither styles nor escapes, so that it looks the same to every reader.
    pub is_exact: bool,
}

/// Characters that may begin something incomplete.
const OPENERS: [char; 7] = ['*', '_', '`', '~', '[', '<', '|'];

/// Characters with a meaning anywhere in Markdown.
const SPECIAL: [char; 11] = ['\\', '`', '*', '_', '~', '[', ']', '<', '>', '&', '|'];

/// Characters with a meaning at the beginning of a line.
const LINE_MARKS: [char; 5] = ['#', '+', '-', '=', ':'];

impl StreamText {
    /// Writes a complete text.
    pub fn whole(text: &RichText) -> Self {
        let mut writer = Writer::new();
        for block in &text.blocks {
            writer.begin_block(block);
            writer.write_block(block, true);
        }
        writer.finish()
    }

    /// Writes the part of a growing text that will not change.
    pub fn settled(text: &RichText) -> Self {
        let mut writer = Writer::new();
        // A block is complete once part of the next one is settled: a table may still get another row.
        let mut growing = text.blocks.iter().enumerate().rev();
        let growing = growing.find_map(|(index, block)| Some((index, settled_part(block)?)));
        let Some((index, last)) = growing else { return writer.finish() };
        for block in &text.blocks[..index] {
            writer.begin_block(block);
            writer.write_block(block, true);
        }
        writer.begin_block(&last);
        writer.write_block(&last, false);
        writer.finish()
    }
}

/// Returns the beginning of a block that further words cannot change: whole lines of code, or whole words
/// before anything that may become formatting. Returns `None` for a table (code without a language),
/// because every row changes it.
fn settled_part(block: &RichBlock) -> Option<RichBlock> {
    let mut spans: Vec<Span> = Vec::new();
    if let BlockKind::Code { language } = &block.kind {
        language.as_ref()?;
        let text: String = block.spans.iter().map(|span| span.text.as_str()).collect();
        let (lines, _open_line) = text.rsplit_once('\n')?;
        spans.push(Span { text: lines.to_owned(), style: SpanStyle::default() });
        return Some(RichBlock { spans, ..block.clone() });
    }
    // The last white space in plain text: the index of the span and the position in it.
    let mut end = None;
    for (index, span) in block.spans.iter().enumerate() {
        if !is_plain(&span.style) {
            continue;
        }
        let opener = span.text.find(OPENERS);
        let certain = &span.text[..opener.unwrap_or(span.text.len())];
        end = certain.rfind(char::is_whitespace).map(|at| (index, at)).or(end);
        if opener.is_some() {
            break;
        }
    }
    let (index, at) = end?;
    spans.extend(block.spans[..=index].iter().cloned());
    let last = spans.last_mut()?;
    last.text.truncate(at);
    last.text.truncate(last.text.trim_end().len());
    (!spans.iter().all(|span| span.text.trim().is_empty()))
        .then(|| RichBlock { spans, ..block.clone() })
}

fn is_plain(style: &SpanStyle) -> bool {
    *style == SpanStyle::default()
}

struct Writer {
    markdown: String,
    is_exact: bool,
    is_line_start: bool,
    /// The kind of the preceding block.
    before: Option<BlockKind>,
    is_quote: bool,
}

impl Writer {
    const fn new() -> Self {
        Self {
            markdown: String::new(),
            is_exact: true,
            is_line_start: true,
            before: None,
            is_quote: false,
        }
    }

    fn finish(self) -> StreamText {
        StreamText { markdown: self.markdown, is_exact: self.is_exact }
    }

    /// Writes the separator between two blocks.
    fn begin_block(&mut self, block: &RichBlock) {
        self.is_quote = block.kind == BlockKind::Quote;
        if let Some(before) = self.before.replace(block.kind.clone()) {
            let is_same = before == block.kind && !block.is_code();
            match (is_same, block.has_gap) {
                (true, false) => self.markdown.push_str("  \n"),
                (true, true) if self.is_quote => self.markdown.push_str("\n>\n"),
                _ => self.markdown.push_str("\n\n"),
            }
        }
        self.begin_line();
    }

    fn begin_line(&mut self) {
        if self.is_quote {
            self.markdown.push_str("> ");
            self.is_exact = false;
        }
        self.is_line_start = true;
    }

    fn write_block(&mut self, block: &RichBlock, is_complete: bool) {
        let BlockKind::Code { language } = &block.kind else {
            for (index, span) in block.spans.iter().enumerate() {
                let rest = block.spans[index + 1..].iter().map(|span| span.text.as_str());
                let next = rest.flat_map(str::chars).next();
                self.write_span(span, next);
            }
            return;
        };
        let text: String = block.spans.iter().map(|span| span.text.as_str()).collect();
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
        let fence = "`".repeat(longest.max(2) + 1);
        let is_word = |c: char| c.is_ascii_alphanumeric() || "+-_#.".contains(c);
        let language = language.as_deref().filter(|name| name.chars().all(is_word));
        self.markdown.extend([&fence, language.unwrap_or_default(), "\n", &text]);
        if is_complete {
            self.markdown.extend(["\n", &fence]);
        }
    }

    /// Writes a span; `next` is the character after it. A style needs white space around it, because
    /// Markdown parsers disagree about other neighbours.
    fn write_span(&mut self, span: &Span, next: Option<char>) {
        let style = &span.style;
        if is_plain(style) {
            return self.write_text(&span.text);
        }
        self.is_exact = false;
        let words = span.text.trim();
        let begin = span.text.len() - span.text.trim_start().len();
        let is_free_before = begin > 0
            || self.is_line_start
            || self.markdown.chars().next_back().is_none_or(char::is_whitespace);
        let is_free_after =
            span.text.trim_end().len() < span.text.len() || next.is_none_or(char::is_whitespace);
        if words.is_empty() || words.contains(['\n', '\r']) || !is_free_before || !is_free_after {
            return self.write_text(&span.text);
        }
        self.write_text(&span.text[..begin]);
        self.is_line_start = false;
        if style.code {
            self.write_code(words);
        } else {
            let link = style.link.as_deref().filter(|link| is_simple_address(link));
            let marks = [(style.bold, "**"), (style.italic, "*"), (style.strike, "~~")];
            let marks = marks.iter().filter_map(|(is_set, mark)| is_set.then_some(*mark));
            self.markdown.extend(marks.clone().chain(link.map(|_| "[")));
            self.write_text(words);
            if let Some(link) = link {
                self.markdown.extend(["](", link, ")"]);
            }
            self.markdown.extend(marks.rev());
        }
        self.write_text(&span.text[begin + words.len()..]);
    }

    fn write_code(&mut self, words: &str) {
        let longest = words.split(|c| c != '`').map(str::len).max().unwrap_or_default();
        let mark = "`".repeat(longest + 1);
        let pad = if words.starts_with('`') || words.ends_with('`') { " " } else { "" };
        self.markdown.extend([&mark, pad, words, pad, &mark]);
    }

    fn write_text(&mut self, text: &str) {
        self.is_exact &= !has_emoji_code(text);
        for c in text.chars() {
            if c == '\n' || c == '\r' {
                self.markdown.push_str("  \n");
                self.begin_line();
                continue;
            }
            if self.is_line_start && (c == ' ' || c == '\t') {
                // Leading spaces could turn the line into code.
                self.markdown.push('\u{a0}');
                continue;
            }
            let is_mark = self.is_line_start && LINE_MARKS.contains(&c);
            if SPECIAL.contains(&c) || is_mark || self.ends_number(c) {
                self.markdown.push('\\');
                self.is_exact = false;
            }
            self.markdown.push(c);
            self.is_line_start = false;
        }
    }

    /// Returns whether this character would turn the number before it into a list item.
    fn ends_number(&self, c: char) -> bool {
        if c != '.' && c != ')' {
            return false;
        }
        let line = self.markdown.rsplit('\n').next().unwrap_or_default();
        let line = line.trim_start_matches("> ").trim_start();
        !line.is_empty() && line.chars().all(|c| c.is_ascii_digit())
    }
}

/// Returns whether Slack would show part of the text as an emoji.
fn has_emoji_code(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+-'".contains(c);
    let mut parts = text.split(':');
    parts.next();
    let inner = parts.collect::<Vec<_>>();
    let (_, inner) = inner.split_last().unwrap_or((&"", &[]));
    inner.iter().any(|name| !name.is_empty() && name.chars().all(is_name))
}

fn is_simple_address(link: &str) -> bool {
    let is_special = |c: char| "()<>\\ ".contains(c) || c.is_control() || c.is_whitespace();
    is_web_address(link) && !link.contains(is_special)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chat::formatting::parse_markdown;

    #[test]
    fn markdown_is_written_as_streams_take_it() {
        let text = "# Title\n\nSome **bold** `co*de` and w**or**d, [l](http://h) a_b\n- one\n  1. two\n\n\
                    > said\n\n```rust\nlet x = \"```\";\n```";
        insta::assert_snapshot!(StreamText::whole(&parse_markdown(text)).markdown);
        let exact = |text: &str| StreamText::whole(&parse_markdown(text)).is_exact;
        assert!(exact("Just words.\n\n```\na*b\n```\n\nAt 10:30, yes."));
        for other in ["a **b**", "a \\* b", "- :smile: x", "> q", "1) x", "&amp;"] {
            assert!(!exact(other), "{other}");
        }
    }

    #[test]
    fn a_growing_answer_only_grows() {
        let text = "Some **bold** words and `code` here.\n\nIntro:\n- one item\n- two\n\n\
                    ```sh\nls -l\npwd\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end is near.";
        let mut written = String::new();
        let mut growths = 0;
        for end in text.char_indices().map(|(index, _)| index) {
            let settled = StreamText::settled(&parse_markdown(&text[..end])).markdown;
            if settled.starts_with(&written) {
                growths += usize::from(settled.len() > written.len());
                written = settled;
            } else {
                assert!(written.starts_with(&settled), "{written:?} then {settled:?}");
            }
        }
        assert!(growths > 12, "{growths}: {written}");
        assert!(StreamText::whole(&parse_markdown(text)).markdown.starts_with(&written));
    }

    fn solid(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    proptest! {
        #[test]
        fn it_reads_back_as_the_same_text(
            parts in prop::collection::vec(prop_oneof![
                "\\PC{0,60}", "[a-z <>&\"'.0-9*_`#-]{0,60}\n", Just("\n\n".to_owned()),
                Just("```py\n".to_owned()), Just("```\n".to_owned()),
                Just("| a | <b> |\n|---|---|\n| c | d |\n".to_owned()),
                Just("- **x _y_** [l](http://u?a=1&b=2)\n".to_owned()), Just("> ".to_owned()),
                Just("~~`a<b`~~ ".to_owned()), Just("1. ".to_owned()), Just("\\*".to_owned()),
            ], 0..16),
        ) {
            let text = parse_markdown(&parts.concat());
            let markdown = StreamText::whole(&text).markdown;
            let back = parse_markdown(&markdown);
            prop_assert_eq!(solid(&back.visible_text()), solid(&text.visible_text()), "{}", markdown);
        }
    }
}
