//! Parses cards of schema 2.0 like the platform: what people see of them, and what is refused.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::Value;

/// A card as people see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeenCard {
    pub(super) text: String,
    pub(super) buttons: Vec<(String, Value)>,
}

/// Returns what people see, or the code and message of the refusal.
pub(super) fn read_card(card: &Value) -> Result<SeenCard, (i64, String)> {
    if card["schema"] != "2.0" {
        return Err((230_099, "the card has another schema than 2.0".to_owned()));
    }
    let elements = card["body"]["elements"].as_array();
    let elements = elements.ok_or((230_099, "the card has no elements".to_owned()))?;
    let mut seen = SeenCard::default();
    for element in elements {
        read_element(element, &mut seen)?;
    }
    Ok(seen)
}

fn read_element(element: &Value, seen: &mut SeenCard) -> Result<(), (i64, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match element["tag"].as_str().unwrap_or_default() {
        "markdown" => {
            let content = text(&element["content"]).ok_or((230_099, "no content".to_owned()))?;
            seen.text.push_str(&visible_markdown(&content).map_err(|why| (230_001, why))?);
        }
        "div" => seen.text.push_str(element["text"]["content"].as_str().unwrap_or_default()),
        "column_set" => {
            for column in element["columns"].as_array().into_iter().flatten() {
                for element in column["elements"].as_array().into_iter().flatten() {
                    read_element(element, seen)?;
                }
            }
        }
        "button" => {
            let label = text(&element["text"]["content"]).filter(|label| !label.is_empty());
            let label = label.ok_or((230_099, "a button has no text".to_owned()))?;
            let behavior = &element["behaviors"][0];
            if behavior["type"] != "callback" || behavior["value"].is_null() {
                return Err((230_099, "a button has no callback".to_owned()));
            }
            seen.buttons.push((label, behavior["value"].clone()));
        }
        other => return Err((230_099, format!("not support tag: {other}"))),
    }
    Ok(())
}

/// Returns the visible text of a card's Markdown, or what is wrong with it.
pub fn visible_markdown(markdown: &str) -> Result<String, String> {
    let mut text = String::new();
    let options =
        Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Text(part) | Event::Code(part) => text.push_str(&part),
            Event::SoftBreak | Event::HardBreak => text.push('\n'),
            Event::End(TagEnd::Paragraph | TagEnd::CodeBlock | TagEnd::Heading(_)) => {
                text.push('\n');
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                return Err(format!("there is a tag: {html}"));
            }
            Event::Start(Tag::Link { dest_url, .. }) if !dest_url.starts_with("http") => {
                return Err(format!("a link is not http: {dest_url}"));
            }
            Event::Rule => return Err("there is a line that nobody has written".to_owned()),
            Event::Start(Tag::Item) => {
                return Err("there is a list that nobody has written".to_owned());
            }
            _ => {}
        }
    }
    Ok(text.trim().to_owned())
}
