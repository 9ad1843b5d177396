//! Writes formatted text as Discord's Markdown. Pure. Everything that Discord would interpret is escaped, and
//! addresses are written so that they show no preview.

use std::fmt::Write as _;

use angelia_core::ports::{BlockKind, RichBlock, RichText, Span, SpanStyle};

/// Characters with a meaning anywhere in a line.
const SPECIAL: &str = "\\*_~`|<[";

/// Characters with a meaning at the beginning of a line.
const SPECIAL_FIRST: &str = "#>-+";

/// An invisible character that separates marks that would otherwise be read as one.
const ZERO_WIDTH: char = '\u{200b}';

/// A link with a longer address becomes plain text.
const MAX_LINK: usize = 500;

/// Returns the text as Discord's Markdown.
pub fn to_markdown(text: &RichText) -> String {
    let mut markdown = String::new();
    for (index, block) in text.blocks.iter().enumerate() {
        if index > 0 {
            markdown.push_str(block.separator());
        }
        match &block.kind {
            BlockKind::Text => markdown.push_str(&write_lines(block)),
            BlockKind::Quote => {
                let lines = write_lines(block);
                let lines: Vec<String> =
                    lines.split('\n').map(|line| format!("> {line}")).collect();
                markdown.push_str(&lines.join("\n"));
            }
            BlockKind::Code { language } => {
                push_code_block(&mut markdown, language.as_deref(), &block.spans);
            }
        }
    }
    markdown
}

fn push_code_block(markdown: &mut String, language: Option<&str>, spans: &[Span]) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_+-.#".contains(c);
    let language = language.filter(|name| name.chars().all(is_word)).unwrap_or_default();
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    markdown.extend(["```", language, "\n", &part_backticks(&text), "\n```"]);
}

/// Puts an invisible character between adjacent backticks, so that they do not end the code.
fn part_backticks(text: &str) -> String {
    text.replace("``", "`\u{200b}`").replace("``", "`\u{200b}`")
}

fn write_lines(block: &RichBlock) -> String {
    let mut writer = LineWriter { text: String::new(), is_line_start: true };
    for span in &block.spans {
        writer.push_span(span);
    }
    writer.text
}

/// Writes the spans of a block.
struct LineWriter {
    text: String,
    /// Whether only white space precedes the next character of the line.
    is_line_start: bool,
}

impl LineWriter {
    fn push_span(&mut self, span: &Span) {
        // Marks work neither across line breaks nor next to white space.
        for (index, line) in span.text.split('\n').enumerate() {
            if index > 0 {
                self.text.push('\n');
                self.is_line_start = true;
            }
            if line.trim().is_empty() {
                self.text.push_str(line);
                continue;
            }
            let words = line.trim();
            let begin = line.len() - line.trim_start().len();
            self.text.push_str(&line[..begin]);
            self.push_words(words, &span.style);
            self.text.push_str(&line[begin + words.len()..]);
        }
    }

    fn push_words(&mut self, words: &str, style: &SpanStyle) {
        let link = style.link.as_deref().and_then(encode_link);
        let Some(link) = link else {
            self.push_styled(words, style);
            return;
        };
        if words == link {
            self.push_address(&link);
        } else if words.contains(['[', ']', '\\']) || words.contains("://") {
            // Discord would not accept this as the text of a link.
            self.push_styled(words, style);
            self.text.push_str(" (");
            self.push_address(&link);
            self.text.push(')');
        } else {
            self.push_mark("[");
            self.push_styled(words, style);
            self.text.extend(["](<", &link, ">)"]);
        }
    }

    fn push_styled(&mut self, words: &str, style: &SpanStyle) {
        let marks: Vec<&str> = [(style.bold, "**"), (style.italic, "*"), (style.strike, "~~")]
            .into_iter()
            .filter_map(|(is_set, mark)| is_set.then_some(mark))
            .collect();
        // Nothing can be escaped in code and addresses, and marks inside would end those around them.
        let is_verbatim = style.code || find_address(words, 0).is_some();
        let would_clash = is_verbatim && words.contains(['*', '~']);
        let has_marks = !marks.is_empty() && !would_clash;
        if has_marks {
            self.push_mark(&marks.concat());
        }
        if style.code {
            self.push_code(words);
        } else {
            self.push_escaped(words);
        }
        if has_marks {
            let closing: String = marks.iter().rev().copied().collect();
            if self.text.ends_with(['*', '~', '\\']) {
                self.text.push(ZERO_WIDTH);
            }
            self.text.push_str(&closing);
        }
    }

    /// Appends a mark and keeps it from merging with the character before it.
    fn push_mark(&mut self, mark: &str) {
        if mark.chars().next().is_some_and(|first| self.text.ends_with(first)) {
            self.text.push(ZERO_WIDTH);
        }
        self.text.push_str(mark);
        self.is_line_start = false;
    }

    fn push_code(&mut self, words: &str) {
        if !words.contains('`') {
            self.push_mark(&format!("`{words}`"));
            return;
        }
        let parted = part_backticks(words);
        let front = if parted.starts_with('`') { " " } else { "" };
        let back = if parted.ends_with('`') { " " } else { "" };
        self.push_mark(&format!("``{front}{parted}{back}``"));
    }

    fn push_escaped(&mut self, words: &str) {
        let mut from = 0;
        while let Some((begin, end)) = find_address(words, from) {
            self.push_plain(&words[from..begin]);
            self.push_address(&words[begin..end]);
            from = end;
        }
        self.push_plain(&words[from..]);
    }

    /// Appends an address in angle brackets, where nothing in it is interpreted and it shows no
    /// preview.
    fn push_address(&mut self, address: &str) {
        self.text.extend(["<", address, ">"]);
        self.is_line_start = false;
    }

    fn push_plain(&mut self, words: &str) {
        for (index, c) in words.char_indices() {
            let is_special = SPECIAL.contains(c)
                || (self.is_line_start && SPECIAL_FIRST.contains(c))
                || (c == '.' && index > 0 && self.is_number_so_far());
            if is_special {
                self.text.push('\\');
            }
            self.text.push(c);
            self.is_line_start &= c.is_whitespace();
        }
    }

    /// Returns whether the line so far is only a number: a dot would turn it into a list item.
    fn is_number_so_far(&self) -> bool {
        let line = self.text.rsplit('\n').next().unwrap_or_default().trim_start();
        !line.is_empty() && line.chars().all(|c| c.is_ascii_digit())
    }
}

/// Finds the next web address in a text and returns its range.
fn find_address(text: &str, from: usize) -> Option<(usize, usize)> {
    let rest = &text[from..];
    let begin = ["http://", "https://"].iter().filter_map(|scheme| rest.find(scheme)).min()?;
    let found = &rest[begin..];
    let end = found.find(|c: char| c.is_whitespace() || "<>".contains(c)).unwrap_or(found.len());
    let mut address = &found[..end];
    while let Some(last) = address.chars().next_back() {
        let is_open = |open: char| address.matches(open).count() >= address.matches(last).count();
        let is_part = match last {
            '.' | ',' | ':' | ';' | '!' | '?' | '"' | '\'' | '*' | '_' | '~' | '`' | '|' => false,
            ')' => is_open('('),
            ']' => is_open('['),
            _ => true,
        };
        if is_part {
            break;
        }
        address = &address[..address.len() - last.len_utf8()];
    }
    // The scheme alone is not an address, but the text after it may contain one.
    if address.ends_with("//") || address.len() < "http://x".len() {
        let next = from + begin + "http".len();
        return find_address(text, next);
    }
    Some((from + begin, from + begin + address.len()))
}

/// Returns a web address without characters that would end it early.
fn encode_link(link: &str) -> Option<String> {
    let is_web = link.starts_with("http://") || link.starts_with("https://");
    if !is_web || link.len() > MAX_LINK {
        return None;
    }
    let mut encoded = String::with_capacity(link.len());
    for c in link.chars() {
        if c.is_whitespace() || c.is_control() || "()<>\\*~`|[]\"".contains(c) {
            for byte in c.to_string().bytes() {
                let _infallible = write!(encoded, "%{byte:02X}");
            }
        } else {
            encoded.push(c);
        }
    }
    Some(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::formatting::parse_markdown;

    #[test]
    fn markdown_becomes_the_markdown_of_discord() {
        let text = "## A_b & B\n\n*x* **y `z`** [l](http://h?a=(1)) [file](src/main.rs) **a***b*\n\n> one\n>\n> two\n\n\
                    ```c++\na < b\n```\n\n- <@123> @everyone\n- see http://a.b/c_d.\n\n1\\. no list\n\n\\# no head ||x||";
        let written = to_markdown(&parse_markdown(text)).replace(ZERO_WIDTH, "<zero width>");
        insta::assert_snapshot!(written, @r"
        **A\_b & B**

        *x* **y** **`z`** [l](<http://h?a=%281%29>) file **a**<zero width>*b*

        > one

        > two

        ```c++
        a < b
        ```

        • \<@123> @everyone
        • see <http://a.b/c_d>.

        1\. no list

        \# no head \|\|x\|\|
        ");
    }

    #[test]
    fn code_with_backticks_stays_code() {
        let show = |text: &str| to_markdown(&parse_markdown(text)).replace(ZERO_WIDTH, "·");
        assert_eq!(show("`` a`b ``"), "``a`b``");
        assert_eq!(show("```` x``` ````"), "``x`·`·` ``");
        assert_eq!(show("~~~~\n```\n~~~~"), "```\n`·`·`\n```");
        assert_eq!(show("`a``b`"), "``a`·`b``");
    }
}
