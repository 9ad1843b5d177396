//! Formatted text in the Markdown of cards. Pure. Characters with a meaning are written as numeric entities, which
//! is the escape that the platform documents; a style that Markdown could not tell from the text around it is
//! left out.

use std::fmt::Write as _;

use angelia_core::ports::{BlockKind, RichBlock, RichText, Span, SpanStyle};

pub fn to_markdown(text: &RichText) -> String {
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
                let text = write_spans(&block.spans);
                let lines: Vec<String> = text.split('\n').map(|line| format!("> {line}")).collect();
                markdown.push_str(&lines.join("\n"));
            }
            BlockKind::Text => markdown.push_str(&write_spans(&block.spans)),
        }
    }
    markdown
}

fn separator(before: Option<&RichBlock>, block: &RichBlock) -> &'static str {
    let Some(before) = before else { return "" };
    match (&before.kind, &block.kind) {
        // The line between two quotes belongs to them.
        (BlockKind::Quote, BlockKind::Quote) if block.has_gap => "\n>\n",
        (BlockKind::Quote, BlockKind::Quote) => "\n",
        // Without an empty line, a paragraph would go on with the quote before it.
        (BlockKind::Quote, _) | (_, BlockKind::Quote) => "\n\n",
        _ => block.separator(),
    }
}

/// Removes the characters that nobody sees and JSON makes long.
pub(super) fn remove_controls(text: &str) -> String {
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

/// Writes the spans of a block, one line for each line of it.
fn write_spans(spans: &[Span]) -> String {
    let spans = join_equal(spans);
    let mut written = String::new();
    for (index, span) in spans.iter().enumerate() {
        push_span(&mut written, span, spans.get(index + 1).and_then(first_written));
    }
    written
}

/// Returns the first character of a span as it is written, or one of the same kind.
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

/// Joins neighbours that are written alike: two pieces of code side by side would otherwise be one.
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

/// Returns the style as far as it is written.
fn written_style(style: &SpanStyle, text: &str) -> SpanStyle {
    if style.code && !text.contains('\n') && !text.trim().is_empty() {
        return SpanStyle { code: true, ..SpanStyle::default() };
    }
    // The platform refuses a card with another kind of link.
    let is_web = |link: &str| link.starts_with("http://") || link.starts_with("https://");
    let link = style.link.clone().filter(|link| is_web(link));
    SpanStyle { code: false, link, ..style.clone() }
}

fn push_span(written: &mut String, span: &Span, next: Option<char>) {
    let style = &span.style;
    if style.code {
        let ticks = "`".repeat(longest_ticks(&span.text) + 1);
        // Spaces beside the marks are not shown.
        let touches = |c: char| c == '`' || c == ' ';
        let pad =
            if span.text.starts_with(touches) || span.text.ends_with(touches) { " " } else { "" };
        let _infallible = write!(written, "{ticks}{pad}{}{pad}{ticks}", span.text);
        return;
    }
    if let Some(link) = &style.link {
        written.push('[');
        // A line break would end the link where the next line begins a block.
        push_styled(written, &span.text.replace('\n', " "), style, Some(']'));
        let _infallible = write!(written, "]({})", encode_address(link));
        return;
    }
    push_styled(written, &span.text, style, next);
}

/// Writes the text with marks around it, if Markdown sees them as marks there.
fn push_styled(written: &mut String, text: &str, style: &SpanStyle, next: Option<char>) {
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
    let before = lead.chars().next_back().or_else(|| written.chars().next_back());
    let after = trail.chars().next().or(next);
    let begins = can_touch(before, inner.chars().next());
    let ends = can_touch(after, inner.chars().next_back());
    if marks.is_empty() || inner.is_empty() || inner.contains('\n') || !begins || !ends {
        push_escaped(written, text);
        return;
    }
    push_escaped(written, lead);
    written.push_str(marks);
    push_escaped(written, inner);
    written.push_str(marks);
    push_escaped(written, trail);
}

/// Whether a mark is one between these characters: beside a space or a sign always, beside a letter only if
/// there is a letter inside. Two marks must not touch.
fn can_touch(outside: Option<char>, inside: Option<char>) -> bool {
    let is_letter = |c: char| c.is_alphanumeric();
    match outside {
        None | Some(' ' | '\n' | '\t') => true,
        Some('*' | '~') => false,
        Some(c) if c.is_ascii_punctuation() => true,
        Some(c) => is_letter(c) && inside.is_some_and(is_letter),
    }
}

fn push_escaped(written: &mut String, text: &str) {
    let mut line_start = written.rfind('\n').map_or(0, |at| at + 1);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let line = &written[line_start..];
        let is_start = line.is_empty() || is_indent(line);
        let is_special = match c {
            '&' | '<' | '>' | '*' | '_' | '~' | '`' | '[' | ']' | '\\' | '|' | '#' | '$' => true,
            '-' | '+' | '=' => is_start,
            '.' | ')' => !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()),
            // The platform has pictures such as `:OK:`.
            ':' => chars.peek().is_some_and(char::is_ascii_alphabetic),
            _ => false,
        };
        match c {
            // Spaces at the beginning of a line would be lost, or make it code.
            ' ' if is_start => written.push_str(NO_BREAK_SPACE),
            '\t' if is_start => written.push_str(&NO_BREAK_SPACE.repeat(4)),
            '\n' => {
                written.push(c);
                line_start = written.len();
            }
            c if is_special => {
                let _infallible = write!(written, "&#{};", u32::from(c));
            }
            c => written.push(c),
        }
    }
}

const NO_BREAK_SPACE: &str = "&#160;";

fn is_indent(line: &str) -> bool {
    line.starts_with(NO_BREAK_SPACE) && line.split(NO_BREAK_SPACE).all(str::is_empty)
}

/// Returns an address without the characters that would end it.
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
    use super::*;
    use crate::chat::formatting::parse_markdown;

    #[test]
    fn text_is_written_in_the_markdown_of_cards() {
        let text = "## A & B\n\n*x* **y `z`** [l*k](http://h?a=1&b=(2)) [file](src/main.rs)\n\n> one\n>\n> two\n\n\
                    ```c++\na < b\n```\n\n- <at id=all></at> :OK: 5:30\n  - deep\n\n1. one\n\n~~gone~~";
        insta::assert_snapshot!(to_markdown(&parse_markdown(text)), @r"
        **A &#38; B**

        *x* **y** `z` [l&#42;k](http://h?a=1&b=%282%29) file

        > one
        >
        > two

        ```c++
        a < b
        ```

        • &#60;at id=all&#62;&#60;/at&#62; &#58;OK: 5:30
        &#160;&#160;• deep

        1&#46; one

        ~~gone~~
        ");
    }
}
