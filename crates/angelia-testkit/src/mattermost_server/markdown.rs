//! Parses the formatting of a post like Mattermost's clients, and returns what a person sees.

use pulldown_cmark::{Event, Options, Parser, TagEnd};

/// A character that nobody sees.
const ZERO_WIDTH: char = '\u{200b}';

/// Returns what a person sees.
pub fn visible_text(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut shown = String::new();
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                shown.push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak | Event::End(TagEnd::CodeBlock) => shown.push('\n'),
            Event::End(
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableRow,
            ) => {
                shown.push_str("\n\n");
            }
            Event::Rule => shown.push_str("---"),
            _ => {}
        }
    }
    shown.trim_end().replace(ZERO_WIDTH, "")
}
