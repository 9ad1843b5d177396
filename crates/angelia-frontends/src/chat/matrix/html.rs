//! Writes formatted text as `org.matrix.custom.html`. Pure. Line breaks are tags, and code contains no other
//! style.

use angelia_core::ports::{BlockKind, RichBlock, RichText, Span, SpanStyle};

/// The addresses that clients turn into links.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

pub fn to_html(text: &RichText) -> String {
    let mut html = String::new();
    let mut open = None;
    for block in &text.blocks {
        let tag = match block.kind {
            BlockKind::Text => Some("p"),
            BlockKind::Quote => Some("blockquote"),
            BlockKind::Code { .. } => None,
        };
        // The lines of a paragraph share one element, and so do all blocks of a quotation.
        let goes_on = tag.is_some() && tag == open && (tag == Some("blockquote") || !block.has_gap);
        if goes_on {
            html.push_str(if block.has_gap { "<br><br>" } else { "<br>" });
        } else {
            close(&mut html, open);
            if let Some(tag) = tag {
                html.extend(["<", tag, ">"]);
            }
        }
        open = tag;
        push_block(&mut html, block);
    }
    close(&mut html, open);
    html
}

/// Returns whether a text needs no HTML.
pub(super) fn is_plain(text: &RichText) -> bool {
    let is_plain = |span: &Span| span.style == SpanStyle::default();
    text.blocks
        .iter()
        .all(|block| block.kind == BlockKind::Text && block.spans.iter().all(is_plain))
}

fn close(html: &mut String, open: Option<&str>) {
    if let Some(tag) = open {
        html.extend(["</", tag, ">"]);
    }
}

fn push_block(html: &mut String, block: &RichBlock) {
    let BlockKind::Code { language } = &block.kind else {
        let mut is_line_start = true;
        for span in &block.spans {
            push_span(html, span, &mut is_line_start);
        }
        return;
    };
    // The language becomes an attribute, so leave it out if it has unexpected characters.
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+-_#.".contains(c);
    let language = language.as_deref().filter(|name| name.chars().all(is_word));
    html.push_str("<pre><code");
    if let Some(language) = language {
        html.extend([" class=\"language-", language, "\""]);
    }
    html.push('>');
    for span in &block.spans {
        push_escaped(html, &span.text);
    }
    html.push_str("</code></pre>");
}

fn push_span(html: &mut String, span: &Span, is_line_start: &mut bool) {
    let style = &span.style;
    let link = style.link.as_deref();
    let link = link.filter(|link| SCHEMES.iter().any(|scheme| link.starts_with(scheme)));
    if let Some(link) = link {
        html.push_str("<a href=\"");
        push_escaped(html, link);
        html.push_str("\">");
    }
    let tags: Vec<&str> =
        [(style.bold, "strong"), (style.italic, "em"), (style.strike, "del"), (style.code, "code")]
            .into_iter()
            .filter_map(|(is_set, tag)| is_set.then_some(tag))
            .collect();
    for (index, line) in span.text.split('\n').enumerate() {
        if index > 0 {
            html.push_str("<br>");
            *is_line_start = true;
        }
        html.extend(tags.iter().flat_map(|tag| ["<", tag, ">"]));
        let words = line.trim_start_matches(' ');
        if *is_line_start {
            // Browsers drop leading spaces.
            html.extend(std::iter::repeat_n('\u{a0}', line.len() - words.len()));
            push_escaped(html, words);
        } else {
            push_escaped(html, line);
        }
        *is_line_start &= words.is_empty();
        html.extend(tags.iter().rev().flat_map(|tag| ["</", tag, ">"]));
    }
    if link.is_some() {
        html.push_str("</a>");
    }
}

fn push_escaped(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            other => html.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::formatting::parse_markdown;

    #[test]
    fn markdown_becomes_the_html_of_matrix() {
        let text = "## A & B\n\n*x* **y `z`** [l](http://h?a=1&b=\"2\") [file](src/main.rs)\n\n> one\n>\n> two\n\n\
                    ```c++\na < b\n```\n\n- a <tag>\n  - inner";
        let html = to_html(&parse_markdown(text));
        let lines = html.replace("><p", ">\n<p").replace("><bl", ">\n<bl").replace('\u{a0}', "_");
        insta::assert_snapshot!(lines, @r#"
        <p><strong>A &amp; B</strong></p>
        <p><em>x</em> <strong>y </strong><strong><code>z</code></strong> <a href="http://h?a=1&amp;b=&quot;2&quot;">l</a> file</p>
        <blockquote>one<br><br>two</blockquote>
        <pre><code class="language-c++">a &lt; b</code></pre>
        <p>• a &lt;tag&gt;<br>__• inner</p>
        "#);
        assert!(is_plain(&RichText::plain("two\nlines")));
        assert!(!is_plain(&parse_markdown("**bold**")));
    }
}
