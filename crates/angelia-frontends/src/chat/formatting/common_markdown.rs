//! Writes formatted text as basic Markdown, without tables and strikethrough, which every parser understands.
//! Lines end with two spaces. Pure.

use angelia_core::ports::{BlockKind, RichBlock, RichText, SpanStyle};

/// Returns formatted text as Markdown.
pub fn to_common_markdown(text: &RichText) -> String {
    let mut markdown = String::new();
    let mut before: Option<&BlockKind> = None;
    for block in &text.blocks {
        if let Some(before) = before {
            let are_texts = *before == BlockKind::Text && block.kind == BlockKind::Text;
            let are_quotes = *before == BlockKind::Quote && block.kind == BlockKind::Quote;
            markdown.push_str(match (block.has_gap, are_quotes) {
                (false, _) if are_texts || are_quotes => "  \n",
                (_, true) => "\n>\n",
                _ => "\n\n",
            });
        }
        match &block.kind {
            BlockKind::Text => push_lines(&mut markdown, block, ""),
            BlockKind::Quote => push_lines(&mut markdown, block, "> "),
            BlockKind::Code { language } => push_code(&mut markdown, block, language.as_deref()),
        }
        before = Some(&block.kind);
    }
    markdown
}

fn push_code(markdown: &mut String, block: &RichBlock, language: Option<&str>) {
    let code: String = block.spans.iter().map(|span| span.text.as_str()).collect();
    let fence = "`".repeat(longest_run(&code).max(2) + 1);
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+-_#.".contains(c);
    let language = language.filter(|name| name.chars().all(is_word)).unwrap_or_default();
    markdown.extend([&fence, language, "\n", code.trim_end_matches('\n'), "\n", &fence]);
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// A piece of one line, in one style.
struct Piece<'a> {
    text: &'a str,
    style: &'a SpanStyle,
}

/// Writes the lines of a block, each preceded by `mark`.
fn push_lines(markdown: &mut String, block: &RichBlock, mark: &str) {
    let mut lines: Vec<Vec<Piece<'_>>> = vec![Vec::new()];
    for span in &block.spans {
        for (index, text) in span.text.split('\n').enumerate() {
            if index > 0 {
                lines.push(Vec::new());
            }
            if let Some(line) = lines.last_mut().filter(|_| !text.is_empty()) {
                line.push(Piece { text, style: &span.style });
            }
        }
    }
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            markdown.push_str("  \n");
        }
        markdown.push_str(mark);
        push_line(markdown, line);
    }
}

fn push_line(markdown: &mut String, line: &[Piece<'_>]) {
    let begin = markdown.len();
    for (index, piece) in line.iter().enumerate() {
        let is_first = markdown.len() == begin;
        let next = line.get(index + 1).and_then(|next| next.text.chars().next());
        // Indentation would turn the line into code.
        let text = if is_first { piece.text.trim_start() } else { piece.text };
        if is_first {
            let indent = piece.text.len() - text.len();
            markdown.extend(std::iter::repeat_n('\u{a0}', indent.min(12)));
        }
        push_piece(markdown, text, piece.style, is_first, next);
    }
}

fn push_piece(
    markdown: &mut String,
    text: &str,
    style: &SpanStyle,
    is_first: bool,
    next: Option<char>,
) {
    if style.code && !text.trim().is_empty() {
        push_code_span(markdown, text);
        return;
    }
    // White space belongs outside the emphasis marks.
    let inner = text.trim();
    let lead = text.len() - text.trim_start().len();
    markdown.push_str(&text[..lead]);
    let before = markdown.chars().next_back();
    let after = text[lead + inner.len()..].chars().next().or(next);
    let stars = match (style.bold, style.italic) {
        (true, true) => "***",
        (true, false) => "**",
        (false, true) => "*",
        (false, false) => "",
    };
    let stars = if can_have_marks(inner, before, after) { stars } else { "" };
    let link = style.link.as_deref().filter(|link| is_web_address(link) && !inner.is_empty());
    if link.is_some() {
        markdown.push('[');
    }
    markdown.push_str(stars);
    push_escaped(markdown, inner, is_first && stars.is_empty() && link.is_none());
    markdown.push_str(stars);
    if let Some(link) = link {
        markdown.push_str("](");
        push_address(markdown, link);
        markdown.push(')');
    }
    markdown.push_str(&text[lead + inner.len()..]);
}

fn push_code_span(markdown: &mut String, text: &str) {
    if markdown.ends_with('`') {
        // Two adjacent runs of backticks would be read as one.
        markdown.push(' ');
    }
    let ticks = "`".repeat(longest_run(text) + 1);
    let has_ticks = text.starts_with('`') || text.ends_with('`');
    let space = if has_ticks { " " } else { "" };
    markdown.extend([&ticks, space, text, space, &ticks]);
}

/// Returns whether emphasis marks around `inner` would work: each must touch a word inside, or
/// white space outside.
fn can_have_marks(inner: &str, before: Option<char>, after: Option<char>) -> bool {
    let (Some(first), Some(last)) = (inner.chars().next(), inner.chars().next_back()) else {
        return false;
    };
    let is_open = |c: Option<char>| c.is_none_or(char::is_whitespace);
    // Two adjacent runs of stars would be read as one.
    let is_star = |c: Option<char>| c == Some('*');
    let fits = |edge: char, outside: Option<char>| edge.is_alphanumeric() || is_open(outside);
    fits(first, before) && fits(last, after) && !is_star(before) && !is_star(after)
}

/// Returns whether a link makes sense in a chat. Links to local files do not.
fn is_web_address(link: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

fn push_address(markdown: &mut String, link: &str) {
    for c in link.chars() {
        match c {
            '(' => markdown.push_str("%28"),
            ')' => markdown.push_str("%29"),
            '<' => markdown.push_str("%3C"),
            '>' => markdown.push_str("%3E"),
            '\\' => markdown.push_str("%5C"),
            c if c.is_whitespace() || c.is_control() => markdown.push_str("%20"),
            c => markdown.push(c),
        }
    }
}

/// Writes text so that nothing in it counts as formatting. `begins_line` also escapes signs that have a meaning
/// only at the beginning of a line.
fn push_escaped(markdown: &mut String, text: &str, begins_line: bool) {
    if begins_line && begins_like_a_block(text) {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        push_inline(markdown, &text[..digits]);
        markdown.push('\\');
        // The sign is a single byte.
        let (sign, rest) = text[digits..].split_at(1);
        markdown.push_str(sign);
        push_inline(markdown, rest);
        return;
    }
    push_inline(markdown, text);
}

fn push_inline(markdown: &mut String, text: &str) {
    let mut before = markdown.chars().next_back();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match c {
            // Escape even a single tilde: the next span may begin with another one.
            '\\' | '`' | '*' | '[' | ']' | '~' => markdown.extend(['\\', c]),
            // Inside a word, an underscore has no meaning.
            '_' if !(is_word(before) && is_word(next)) => markdown.push_str("\\_"),
            '<' => markdown.push_str("&lt;"),
            '&' if is_word(next) || next == Some('#') => markdown.push_str("&amp;"),
            c => markdown.push(c),
        }
        before = Some(c);
    }
}

/// Returns whether a line would be a heading, a quote, a list item or a rule.
fn begins_like_a_block(text: &str) -> bool {
    if text.starts_with(['#', '>', '-', '+', '=', ':', '|']) {
        return true;
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < text.len() && rest.starts_with(['.', ')'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chat::formatting::parse_markdown;

    #[test]
    fn markdown_becomes_the_common_subset() {
        let text = "## A & B\n\n*x* **y `z`** [l](http://h?a=(1)) [file](src/main.rs) ~~gone~~\n\n> one\n>\n> two\n\n\
                    ```c++\na < b\n```\n\n- <tag> snake_case\n- 2*3\n\n| a | b |\n|---|---|\n| c | d |\n\n\\# no";
        let expected = "**A & B**\n\n*x* **y** `z` [l](http://h?a=%281%29) file gone\n\n> one\n>\n> two\n\n\
                        ```c++\na < b\n```\n\n• &lt;tag> snake_case  \n• 2\\*3\n\n\
                        ```\na | b\n--+--\nc | d\n```\n\n\\# no";
        assert_eq!(to_common_markdown(&parse_markdown(text)), expected);
    }

    fn solid(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    proptest! {
        /// A Markdown parser sees exactly the original text.
        #[test]
        fn nothing_visible_changes(parts in prop::collection::vec(prop_oneof![
            "\\PC{0,40}", "[-a-z0-9#>*_`~|.+=:<>&\\[\\]() !]{0,40}\n", Just("\n\n".to_owned()),
            Just("```py\n".to_owned()), Just("> ".to_owned()), Just("**x** *y*".to_owned()),
            Just("- **x _y_** [l](http://u?a=1&b=2)\n".to_owned()), Just("`a<b` ".to_owned()),
        ], 0..12)) {
            let text = parse_markdown(&parts.concat());
            let written = to_common_markdown(&text);
            let read = parse_markdown(&written).visible_text();
            prop_assert_eq!(solid(&read), solid(&text.visible_text()), "{}", written);
        }
    }
}
