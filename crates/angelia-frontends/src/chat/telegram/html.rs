//! Writes formatted text as the HTML of the Bot API. Pure. Only `&`, `<` and `>` need escapes, and code
//! contains no other style.

use angelia_core::ports::{BlockKind, RichBlock, RichText, Span};

pub fn to_html(text: &RichText) -> String {
    let mut html = String::new();
    let mut is_quoted = false;
    for (index, block) in text.blocks.iter().enumerate() {
        let is_quote = block.kind == BlockKind::Quote;
        if is_quoted && !is_quote {
            html.push_str("</blockquote>");
        }
        if index > 0 {
            html.push_str(block.separator());
        }
        if is_quote && !is_quoted {
            html.push_str("<blockquote>");
        }
        is_quoted = is_quote;
        push_block(&mut html, block);
    }
    if is_quoted {
        html.push_str("</blockquote>");
    }
    html
}

fn push_block(html: &mut String, block: &RichBlock) {
    let BlockKind::Code { language } = &block.kind else {
        for span in &block.spans {
            push_span(html, span);
        }
        return;
    };
    // The language becomes an attribute, so leave it out if it has unexpected characters.
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+-_#.".contains(c);
    let language = language.as_deref().filter(|name| name.chars().all(is_word));
    html.push_str("<pre>");
    if let Some(language) = language {
        html.extend(["<code class=\"language-", language, "\">"]);
    }
    for span in &block.spans {
        push_escaped(html, &span.text);
    }
    if language.is_some() {
        html.push_str("</code>");
    }
    html.push_str("</pre>");
}

fn push_span(html: &mut String, span: &Span) {
    let style = &span.style;
    if style.code {
        html.push_str("<code>");
        push_escaped(html, &span.text);
        html.push_str("</code>");
        return;
    }
    let link = style.link.as_deref().filter(|link| is_web_address(link));
    if let Some(link) = link {
        html.push_str("<a href=\"");
        push_escaped(html, link);
        html.push_str("\">");
    }
    let tags: Vec<&str> = [(style.bold, "b"), (style.italic, "i"), (style.strike, "s")]
        .into_iter()
        .filter_map(|(is_set, tag)| is_set.then_some(tag))
        .collect();
    html.extend(tags.iter().flat_map(|tag| ["<", tag, ">"]));
    push_escaped(html, &span.text);
    html.extend(tags.iter().rev().flat_map(|tag| ["</", tag, ">"]));
    if link.is_some() {
        html.push_str("</a>");
    }
}

/// Returns whether a link makes sense in a chat. Links to local files do not.
fn is_web_address(link: &str) -> bool {
    ["http://", "https://", "mailto:", "tg://"].iter().any(|scheme| link.starts_with(scheme))
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
    fn markdown_becomes_the_html_of_the_bot_api() {
        let text = "## A & B\n\n*x* **y `z`** [l](http://h?a=1&b=\"2\") [file](src/main.rs)\n\n> one\n>\n> two\n\n\
                    ```c++\na < b\n```\n\n- <tag>";
        insta::assert_snapshot!(to_html(&parse_markdown(text)), @r#"
        <b>A &amp; B</b>

        <i>x</i> <b>y </b><code>z</code> <a href="http://h?a=1&amp;b=&quot;2&quot;">l</a> file

        <blockquote>one

        two</blockquote>

        <pre><code class="language-c++">a &lt; b</code></pre>

        • &lt;tag&gt;
        "#);
    }
}
