//! Writes formatted text as Markdown. Special characters are escaped. A style is left out where Markdown
//! could not tell its marks from the surrounding text.

use std::fmt::Write as _;

use angelia_core::ports::{BlockKind, RichBlock, RichText, Span, SpanStyle};

/// How special characters are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// With a backslash, which every Markdown parser understands.
    Backslashes,
    /// As numeric HTML entities.
    Entities,
}

/// Returns the text as Markdown for parsers that keep single line breaks.
pub fn write_markdown(text: &RichText, escapes: Escapes) -> String {
    let mut markdown = String::new();
    let mut before: Option<&RichBlock> = None;
    for block in &text.blocks {
        markdown.push_str(separator(before, block));
        before = Some(block);
        match &block.kind {
            BlockKind::Code { language } => {
                push_code(&mut markdown, language.as_deref(), &block.spans);
            }
            BlockKind::Quote => {
                let text = write_spans(&block.spans, escapes);
                let lines: Vec<String> = text.split('\n').map(|line| format!("> {line}")).collect();
                markdown.push_str(&lines.join("\n"));
            }
            BlockKind::Text => markdown.push_str(&write_spans(&block.spans, escapes)),
        }
    }
    markdown
}

fn separator(before: Option<&RichBlock>, block: &RichBlock) -> &'static str {
    let Some(before) = before else { return "" };
    match (&before.kind, &block.kind) {
        // The empty line between two quotes belongs to them.
        (BlockKind::Quote, BlockKind::Quote) if block.has_gap => "\n>\n",
        (BlockKind::Quote, BlockKind::Quote) => "\n",
        // Without an empty line, a paragraph would continue the quote before it.
        (BlockKind::Quote, _) | (_, BlockKind::Quote) => "\n\n",
        _ => block.separator(),
    }
}

/// Removes control characters, which are invisible and long in JSON.
pub fn remove_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn push_code(markdown: &mut String, language: Option<&str>, spans: &[Span]) {
    let text: String = spans.iter().map(|span| remove_controls(&span.text)).collect();
    let fence = "`".repeat(longest_ticks(&text).max(2) + 1);
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+-_#.".contains(c);
    let language = language.filter(|name| name.chars().all(is_word)).unwrap_or_default();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _infallible = write!(markdown, "{fence}{language}\n{text}{end}{fence}");
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Writes the spans of a block and keeps its line breaks.
fn write_spans(spans: &[Span], escapes: Escapes) -> String {
    let spans = join_equal(spans);
    let mut writer = SpanWriter { written: String::new(), escapes };
    for (index, span) in spans.iter().enumerate() {
        writer.push_span(span, spans.get(index + 1).and_then(first_written));
    }
    writer.written
}

/// Returns the first character of a span as written, or one of the same class.
fn first_written(span: &Span) -> Option<char> {
    let SpanStyle { bold, italic, strike, code, link } = &span.style;
    if *code {
        Some('`')
    } else if link.is_some() {
        Some('[')
    } else if *bold || *italic || *strike {
        Some('*')
    } else {
        span.text.chars().next().map(|c| if c.is_ascii_punctuation() { '.' } else { c })
    }
}

/// Joins neighbouring spans with the same style: two adjacent code spans would otherwise merge.
fn join_equal(spans: &[Span]) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        let text = remove_controls(&span.text);
        if text.is_empty() {
            continue;
        }
        let style = written_style(&span.style, &text);
        match joined.last_mut() {
            Some(last) if last.style == style => last.text.push_str(&text),
            _ => joined.push(Span { text, style }),
        }
    }
    joined
}

/// Returns the part of the style that can be written.
fn written_style(style: &SpanStyle, text: &str) -> SpanStyle {
    if style.code && !text.contains('\n') && !text.trim().is_empty() {
        return SpanStyle { code: true, ..SpanStyle::default() };
    }
    // The platform refuses a card with any other kind of link.
    let is_web = |link: &str| link.starts_with("http://") || link.starts_with("https://");
    let link = style.link.clone().filter(|link| is_web(link));
    SpanStyle { code: false, link, ..style.clone() }
}

/// Returns whether a mark between these characters works as one: always next to white space or punctuation,
/// next to a letter only if there is also a letter inside. Two marks must not touch.
fn can_touch(outside: Option<char>, inside: Option<char>) -> bool {
    let is_letter = |c: char| c.is_alphanumeric();
    match outside {
        None | Some(' ' | '\n' | '\t') => true,
        Some('*' | '~') => false,
        Some(c) if c.is_ascii_punctuation() => true,
        Some(c) => is_letter(c) && inside.is_some_and(is_letter),
    }
}

/// Writes the spans of one block.
struct SpanWriter {
    written: String,
    escapes: Escapes,
}

impl SpanWriter {
    fn push_span(&mut self, span: &Span, next: Option<char>) {
        let style = &span.style;
        if style.code {
            let ticks = "`".repeat(longest_ticks(&span.text) + 1);
            // Markdown drops spaces next to the backticks, and backticks would merge with them.
            let touches = |c: char| c == '`' || c == ' ';
            let is_near = span.text.starts_with(touches) || span.text.ends_with(touches);
            let pad = if is_near { " " } else { "" };
            let _infallible = write!(self.written, "{ticks}{pad}{}{pad}{ticks}", span.text);
            return;
        }
        if let Some(link) = &style.link {
            if self.written.ends_with('!') {
                // An exclamation mark would turn the link into an image.
                self.written.pop();
                self.push_mark('!');
            }
            self.written.push('[');
            // A line break would end the link if the next line begins a block.
            self.push_styled(&span.text.replace('\n', " "), style, Some(']'));
            let _infallible = write!(self.written, "]({})", encode_address(link));
            return;
        }
        self.push_styled(&span.text, style, next);
    }

    /// Writes the text with emphasis marks around it, if they would work there.
    fn push_styled(&mut self, text: &str, style: &SpanStyle, next: Option<char>) {
        let marks = match (style.strike, style.bold, style.italic) {
            (true, false, false) => "~~",
            (_, true, true) => "***",
            (_, true, false) => "**",
            (_, false, true) => "*",
            (false, false, false) => "",
        };
        let inner = text.trim();
        let begin = text.len() - text.trim_start().len();
        let (lead, trail) = (&text[..begin], &text[begin + inner.len()..]);
        let before = lead.chars().next_back().or_else(|| self.written.chars().next_back());
        let after = trail.chars().next().or(next);
        let begins = can_touch(before, inner.chars().next());
        let ends = can_touch(after, inner.chars().next_back());
        if marks.is_empty() || inner.is_empty() || inner.contains('\n') || !begins || !ends {
            self.push_escaped(text);
            return;
        }
        self.push_escaped(lead);
        self.written.push_str(marks);
        self.push_escaped(inner);
        self.written.push_str(marks);
        self.push_escaped(trail);
    }

    fn push_escaped(&mut self, text: &str) {
        let mut line_start = self.written.rfind('\n').map_or(0, |at| at + 1);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let line = &self.written[line_start..];
            let space = self.escapes.indent();
            let is_start = line.is_empty() || is_indent(line, space);
            let is_special = self.is_special(c, line, is_start, chars.peek().copied());
            match c {
                // Leading spaces would be lost, or turn the line into code.
                ' ' if is_start => self.written.push_str(space),
                '\t' if is_start => self.written.push_str(&space.repeat(4)),
                '\n' => {
                    self.written.push(c);
                    line_start = self.written.len();
                }
                c if is_special => self.push_mark(c),
                c => self.written.push(c),
            }
        }
    }

    /// Returns whether a character would have a meaning after `line` and before `next`.
    fn is_special(&self, c: char, line: &str, is_start: bool, next: Option<char>) -> bool {
        // Entities are for platforms that interpret more than plain Markdown.
        let is_wary = self.escapes == Escapes::Entities;
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match c {
            '<' | '*' | '~' | '`' | '[' | ']' | '\\' | '|' => true,
            '_' => is_wary || !is_word(line.chars().next_back()) || !is_word(next),
            '&' => is_wary || is_word(next) || next == Some('#'),
            '>' | '#' => is_wary || is_start,
            '-' | '+' | '=' => is_start,
            '.' | ')' => !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()),
            '$' => is_wary,
            // Emoji codes such as `:OK:`.
            ':' => is_wary && next.is_some_and(|next| next.is_ascii_alphabetic()),
            _ => false,
        }
    }

    /// Writes a special character, escaped.
    fn push_mark(&mut self, c: char) {
        let _infallible = match self.escapes {
            Escapes::Backslashes => write!(self.written, "\\{c}"),
            Escapes::Entities => write!(self.written, "&#{};", u32::from(c)),
        };
    }
}

impl Escapes {
    /// Returns a space for the beginning of a line.
    const fn indent(self) -> &'static str {
        match self {
            Self::Backslashes => "\u{a0}",
            Self::Entities => "&#160;",
        }
    }
}

fn is_indent(line: &str, space: &str) -> bool {
    line.starts_with(space) && line.split(space).all(str::is_empty)
}

/// Returns an address without characters that would end it.
fn encode_address(link: &str) -> String {
    let mut encoded = String::with_capacity(link.len());
    for c in link.chars() {
        if c.is_whitespace() || c.is_control() || "()<>[]\\\"`*~".contains(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _infallible = write!(encoded, "%{byte:02X}");
            }
        } else {
            encoded.push(c);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chat::formatting::parse_markdown;

    fn rewrite(text: &str) -> String {
        write_markdown(&parse_markdown(text), Escapes::Backslashes)
    }

    fn solid(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    #[test]
    fn text_is_written_in_ordinary_markdown() {
        let text = "## A & B\n\n*x* **y `z`** [l*k](http://h?a=1&b=(2)) snake_case_name\n\n> one\n>\n> two\n\n\
                    ```c++\na < b\n```\n\n- 1 * 2 &amp;lt; <b>\n  - deep\n\n1. one\n\n~~gone~~ #1";
        insta::assert_snapshot!(rewrite(text).replace('\u{a0}', "·"), @r"
        **A & B**

        *x* **y** `z` [l\*k](http://h?a=1&b=%282%29) snake_case_name

        > one
        >
        > two

        ```c++
        a < b
        ```

        • 1 \* 2 \&lt; \<b>
        ··• deep

        1\. one

        ~~gone~~ #1
        ");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_as_before(
            parts in prop::collection::vec(prop_oneof![
                "\\PC{0,60}", "[a-z <>&\"'*_~`#|:+=.0-9\\[\\]()\\\\!$-]{0,60}\n", "[*_~`a ]{0,20}",
                Just("\n\n".to_owned()), Just("```py\n".to_owned()), Just("```\n".to_owned()),
                Just("| a | <b> |\n|---|---|\n| c | d |\n".to_owned()), Just("> ".to_owned()),
                Just("- **x _y_** ![l*k](http://u?a=1&b=(2)) [f](src/a.rs)\n".to_owned()),
                Just("  - deep\n".to_owned()), Just("7. seven\n".to_owned()),
            ], 0..16),
        ) {
            let text = parse_markdown(&parts.concat());
            let written = write_markdown(&text, Escapes::Backslashes);
            let again = parse_markdown(&written);
            prop_assert_eq!(solid(&again.visible_text()), solid(&text.visible_text()), "{}", written);
        }
    }
}
