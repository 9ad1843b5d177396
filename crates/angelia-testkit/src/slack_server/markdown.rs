//! Parses the Markdown of a stream, as far as needed to check that the text is correct.

/// Returns the text without its formatting.
pub(super) fn visible_text(markdown: &str) -> String {
    let mut lines = Vec::new();
    let mut fence: Option<String> = None;
    for line in markdown.split('\n') {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if line == open => fence = None,
            Some(_) => lines.push(line.to_owned()),
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => lines.push(visible_line(line)),
        }
    }
    lines.join("\n").trim_end().to_owned()
}

fn visible_line(line: &str) -> String {
    let line = line.strip_suffix("  ").unwrap_or(line);
    let line = line.strip_prefix('>').map_or(line, str::trim_start);
    let mut text = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match c {
            '\\' if rest[1..].starts_with(|next: char| next.is_ascii_punctuation()) => {
                text.push_str(&rest[1..2]);
                taken = 2;
            }
            '`' => {
                let mark: String = rest.chars().take_while(|c| *c == '`').collect();
                let inner = &rest[mark.len()..];
                if let Some(end) = inner.find(&mark) {
                    text.push_str(&inner[..end]);
                    taken = end + 2 * mark.len();
                } else {
                    text.push('`');
                }
            }
            '[' => {
                let end = rest.find("](").zip(rest.find(')')).filter(|(middle, end)| middle < end);
                if let Some((middle, end)) = end {
                    text.push_str(&visible_line(&rest[1..middle]));
                    taken = end + 1;
                } else {
                    text.push('[');
                }
            }
            '*' => {}
            '~' if rest.starts_with("~~") => taken = 2,
            '\u{a0}' => text.push(' '),
            other => text.push(other),
        }
        rest = &rest[taken..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_is_taken_away() {
        let text = "**bold** \\*not\\* `co*de` [l](http://h) ~~x~~  \n> said\n\n```rust\na **b**\n```\nend";
        assert_eq!(visible_text(text), "bold *not* co*de l x\nsaid\n\na **b**\nend");
    }
}
