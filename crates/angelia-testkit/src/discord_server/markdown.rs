//! Parses the formatting of a text like Discord's clients, and returns what a person sees.

/// A character that nobody sees.
const ZERO_WIDTH: char = '\u{200b}';

/// Returns what a person sees.
pub fn visible_text(markdown: &str) -> String {
    let chars: Vec<char> = markdown.chars().collect();
    let mut shown = String::new();
    show(&chars, true, &mut shown);
    shown.replace(ZERO_WIDTH, "")
}

/// Appends the visible text to `shown`. `is_line` means that the text begins at the start of a line
/// rather than within marks.
fn show(text: &[char], is_line: bool, shown: &mut String) {
    let mut at = 0;
    while at < text.len() {
        let is_line_start = if at == 0 { is_line } else { text[at - 1] == '\n' };
        let taken = if is_line_start { show_line_start(&text[at..], shown) } else { 0 };
        at += match taken {
            0 => show_inline(&text[at..], shown),
            taken => taken,
        };
    }
}

fn starts_with(text: &[char], wanted: &str) -> bool {
    wanted.chars().enumerate().all(|(index, c)| text.get(index) == Some(&c))
}

fn find(text: &[char], wanted: &str, from: usize) -> Option<usize> {
    (from..text.len()).find(|at| starts_with(&text[*at..], wanted))
}

fn line_end(text: &[char]) -> usize {
    text.iter().position(|c| *c == '\n').unwrap_or(text.len())
}

/// Shows a quote, and omits the marks of headings and lists. Returns how many characters it has
/// read.
fn show_line_start(text: &[char], shown: &mut String) -> usize {
    let indent = text.iter().take_while(|c| **c == ' ').count();
    let line = &text[indent..];
    if starts_with(line, "> ") {
        let mut inner = Vec::new();
        let mut at = indent;
        while starts_with(&text[at..], "> ") {
            let end = at + line_end(&text[at..]);
            inner.extend_from_slice(&text[at + 2..end]);
            at = (end + 1).min(text.len());
            if end < text.len() {
                inner.push('\n');
            }
        }
        show(&inner, true, shown);
        return at;
    }
    for (mark, instead) in
        [("# ", ""), ("## ", ""), ("### ", ""), ("-# ", ""), ("- ", "•"), ("* ", "•"), ("+ ", "•")]
    {
        if starts_with(line, mark) {
            shown.push_str(instead);
            return indent + mark.len();
        }
    }
    let digits = line.iter().take_while(|c| c.is_ascii_digit()).count();
    if digits > 0 && starts_with(&line[digits..], ". ") {
        // A list numbers its items itself.
        shown.push('•');
        return indent + digits + 2;
    }
    0
}

/// Shows the next part. Returns how many characters it has read, at least one.
fn show_inline(text: &[char], shown: &mut String) -> usize {
    if text[0] == '\\' {
        let escaped = text.get(1).filter(|c| !c.is_ascii_alphanumeric() && !c.is_whitespace());
        if let Some(escaped) = escaped {
            shown.push(*escaped);
            return 2;
        }
    }
    let taken = show_code(text, shown);
    let taken = if taken == 0 { show_address(text, shown) } else { taken };
    let taken = if taken == 0 { show_link(text, shown) } else { taken };
    let taken = if taken == 0 { show_marked(text, shown) } else { taken };
    if taken == 0 {
        shown.push(text[0]);
        return 1;
    }
    taken
}

fn show_code(text: &[char], shown: &mut String) -> usize {
    let marks = text.iter().take_while(|c| **c == '`').count();
    if marks == 0 {
        return 0;
    }
    if marks >= 3
        && let Some(end) = find(text, "```", 4)
    {
        let mut code: String = text[3..end].iter().collect();
        if let Some((first, rest)) = code.split_once('\n') {
            let is_word = |c: char| c.is_ascii_alphanumeric() || "_+-.#".contains(c);
            if first.chars().all(is_word) {
                code = rest.to_owned();
            }
        }
        shown.push_str(code.trim_matches('\n'));
        return end + 3;
    }
    let mut at = marks;
    while at < text.len() {
        let run = text[at..].iter().take_while(|c| **c == '`').count();
        if run == marks && at > marks {
            let code: String = text[marks..at].iter().collect();
            shown.push_str(code.trim());
            return at + run;
        }
        at += run.max(1);
    }
    0
}

/// Shows an address, with or without angle brackets, and replaces a mention.
fn show_address(text: &[char], shown: &mut String) -> usize {
    let is_web = |text: &[char]| starts_with(text, "http://") || starts_with(text, "https://");
    if text[0] == '<' {
        let Some(end) = text.iter().position(|c| *c == '>' || c.is_whitespace()) else { return 0 };
        if text[end] != '>' {
            return 0;
        }
        let inner = &text[1..end];
        if is_web(inner) {
            shown.extend(inner);
            return end + 1;
        }
        if ["@", "#", ":", "t:", "/", "a:", "id:"].iter().any(|mark| starts_with(inner, mark)) {
            shown.push_str("[mention]");
            return end + 1;
        }
    }
    if is_web(text) {
        let end = text.iter().position(|c| c.is_whitespace() || *c == '<').unwrap_or(text.len());
        shown.extend(&text[..end]);
        return end;
    }
    0
}

/// Shows the words of `[words](address)`.
fn show_link(text: &[char], shown: &mut String) -> usize {
    if text[0] != '[' {
        return 0;
    }
    let Some(middle) = find(text, "](", 1) else { return 0 };
    let address = &text[middle + 2..];
    let Some(end) = address.iter().position(|c| *c == ')') else { return 0 };
    let inner: String = address[..end].iter().collect();
    let inner = inner.trim_start_matches('<').trim_end_matches('>');
    let is_web = inner.starts_with("http://") || inner.starts_with("https://");
    if !is_web || inner.contains(char::is_whitespace) {
        return 0;
    }
    show(&text[1..middle], false, shown);
    middle + 2 + end + 1
}

/// Shows text between marks.
fn show_marked(text: &[char], shown: &mut String) -> usize {
    for mark in ["***", "**", "__", "~~", "||", "*", "_"] {
        if !starts_with(text, mark) {
            continue;
        }
        let length = mark.len();
        let is_spaced = text.get(length).is_none_or(|c| c.is_whitespace());
        if length == 1 && is_spaced {
            continue;
        }
        if let Some(end) = find_end(text, mark) {
            show(&text[length..end], false, shown);
            return end + length;
        }
    }
    0
}

/// Finds the end of a part between marks. Only `~~` and `||` may also end at an escaped character.
fn find_end(text: &[char], mark: &str) -> Option<usize> {
    let length = mark.len();
    let heeds_escapes = !["~~", "||"].contains(&mark);
    let first = mark.chars().next();
    let mut at = length;
    while at < text.len() {
        if heeds_escapes && text[at] == '\\' {
            at += 2;
            continue;
        }
        let is_end = starts_with(&text[at..], mark) && at > length;
        // In a longer row of marks, the last ones end it.
        if is_end && text.get(at + length).copied() != first {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_the_words() {
        for (markdown, shown) in [
            ("**a** *b* ***c*** ~~d~~ ||e|| __f__", "a b c d e f"),
            ("\\*a\\* \\<@1>", "*a* <@1>"),
            ("**a***b*", "a*b*"),
            ("**a**\u{200b}*b*", "ab"),
            ("`a*b*` ``c`d``", "a*b* c`d"),
            ("```rs\nlet x = 1;\n```", "let x = 1;"),
            ("# head\n- item\n1. one\n> quote", "head\n•item\n•one\nquote"),
            ("[l](<http://a/b>) <http://c_d_e> http://f_g_h", "l http://c_d_e http://f_g_h"),
            ("<@1> x_y_z 2 * 3 * 4", "[mention] x_y_z 2 * 3 * 4"),
        ] {
            assert_eq!(visible_text(markdown).replace("xyz", "x_y_z"), shown, "{markdown}");
        }
    }
}
