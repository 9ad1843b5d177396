//! Writes formatted text as Slack blocks. Pure. A `rich_text` block states explicitly what is bold or code.
//! Nothing in it is parsed, so no text can break it or mention anybody.

use std::mem;

use angelia_core::ports::{BlockKind, Button, RichBlock, RichText, Span};
use serde_json::{Map, Value, json};

/// The maximum length of a message's blocks as JSON. Slack's own limit is a little higher.
const MAX_BLOCKS_LENGTH: usize = 13_000;

const MAX_LABEL: usize = 75;
const MAX_LINK: usize = 3000;
const BUTTONS_PER_BLOCK: usize = 25;

/// The longest text of a section.
const MAX_SECTION: usize = 3000;

/// Returns the blocks of a message. Drops the formatting if it does not fit.
pub fn to_blocks(text: &RichText, buttons: &[Button]) -> Vec<Value> {
    let mut blocks = vec![rich_block(text, true)];
    if blocks[0].to_string().chars().count() > MAX_BLOCKS_LENGTH {
        blocks[0] = rich_block(text, false);
    }
    blocks.extend(button_blocks(buttons));
    blocks
}

/// Returns the blocks of a message whose formatting was refused: the beginning of its text, and its
/// buttons.
pub(super) fn plain_blocks(text: &str, buttons: &[Button]) -> Vec<Value> {
    let start: String = text.chars().take(MAX_SECTION).collect();
    let section = json!({"type": "section", "text": {"type": "plain_text", "text": start}});
    let mut blocks = vec![section];
    blocks.extend(button_blocks(buttons));
    blocks
}

fn button_blocks(buttons: &[Button]) -> impl Iterator<Item = Value> {
    buttons.chunks(BUTTONS_PER_BLOCK).enumerate().map(|(row, buttons)| {
        let elements: Vec<Value> = buttons
            .iter()
            .enumerate()
            .map(|(index, button)| {
                let label: String = button.label.chars().take(MAX_LABEL).collect();
                json!({
                    "type": "button", "action_id": format!("choice-{row}-{index}"),
                    "text": {"type": "plain_text", "text": label}, "value": &*button.value,
                })
            })
            .collect();
        json!({"type": "actions", "elements": elements})
    })
}

/// Returns a `rich_text` block. Consecutive texts share a section, and consecutive quotes share a
/// quote.
fn rich_block(text: &RichText, has_styles: bool) -> Value {
    let mut elements = Vec::new();
    let mut open: Vec<Value> = Vec::new();
    let mut open_kind = "";
    for block in &text.blocks {
        let kind = element_kind(block);
        if kind != open_kind || block.is_code() {
            push_element(&mut elements, open_kind, &mut open);
            open_kind = kind;
        }
        if !open.is_empty() {
            push_plain(&mut open, block.separator());
        }
        for span in &block.spans {
            match styled(span).filter(|_| has_styles && !block.is_code()) {
                Some(element) => open.push(element),
                None => push_plain(&mut open, &span.text),
            }
        }
    }
    push_element(&mut elements, open_kind, &mut open);
    json!({"type": "rich_text", "elements": elements})
}

const fn element_kind(block: &RichBlock) -> &'static str {
    match block.kind {
        BlockKind::Text => "rich_text_section",
        BlockKind::Quote => "rich_text_quote",
        BlockKind::Code { .. } => "rich_text_preformatted",
    }
}

fn push_element(elements: &mut Vec<Value>, kind: &str, open: &mut Vec<Value>) {
    if !open.is_empty() {
        elements.push(json!({"type": kind, "elements": mem::take(open)}));
    }
}

/// Appends text to the preceding plain text: each element takes space, and Slack refuses empty
/// ones.
fn push_plain(open: &mut Vec<Value>, text: &str) {
    if text.is_empty() {
        return;
    }
    if let Some(last) = open.last_mut().filter(|last| last.get("style").is_none())
        && last["type"] == "text"
        && let Some(Value::String(before)) = last.get_mut("text")
    {
        before.push_str(text);
        return;
    }
    open.push(json!({"type": "text", "text": text}));
}

/// Returns an element with a style or link, or `None` for plain text.
fn styled(span: &Span) -> Option<Value> {
    let link = span.style.link.as_deref().filter(|link| is_web_address(link));
    let style = &span.style;
    let marks = [
        ("bold", style.bold),
        ("italic", style.italic),
        ("strike", style.strike),
        ("code", style.code),
    ];
    let marks: Map<String, Value> = marks
        .into_iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(name, _)| (name.to_owned(), true.into()))
        .collect();
    if span.text.is_empty() || (marks.is_empty() && link.is_none()) {
        return None;
    }
    let mut element = json!({"type": "text", "text": span.text});
    if !marks.is_empty() {
        element["style"] = Value::Object(marks);
    }
    if let Some(link) = link {
        element["type"] = "link".into();
        element["url"] = link.into();
    }
    Some(element)
}

/// Returns whether a link makes sense in a chat. Links to local files do not.
pub(super) fn is_web_address(link: &str) -> bool {
    link.len() <= MAX_LINK
        && ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::formatting::parse_markdown;

    #[test]
    fn markdown_becomes_rich_text() {
        let text = "## A & B\n\n*x* **y `z`** [l](http://h) [file](src/main.rs)\n\n> one\n>\n> two\n\n\
                    ```c++\na < b\n```\n\n- <!channel>";
        let buttons = [Button { label: "Yes".into(), value: "v".into(), words: None }];
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&to_blocks(&parse_markdown(text), &buttons)).unwrap()
        );
    }

    #[test]
    fn too_much_formatting_is_left_out() {
        let text = parse_markdown(&"**a** b ".repeat(480));
        let length = |blocks: &[Value]| blocks[0].to_string().len();
        let blocks = to_blocks(&text, &[]);
        assert!(length(&blocks) <= MAX_BLOCKS_LENGTH);
        assert!(!blocks[0].to_string().contains("bold"));
    }
}
