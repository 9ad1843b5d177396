//! Parses the blocks of a message, and refuses those that the real server refuses.

use serde_json::Value;

const MAX_BLOCKS: usize = 50;
/// Limit for all blocks together, as JSON.
const MAX_LENGTH: usize = 13_200;
const MAX_SECTION: usize = 3000;
const MAX_LABEL: usize = 75;
const MAX_VALUE: usize = 2000;
const MAX_ID: usize = 255;
const MAX_ELEMENTS: usize = 25;

/// What the blocks of a message show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadBlocks {
    pub text: String,
    /// Label and value.
    pub buttons: Vec<(String, String)>,
}

/// Parses blocks. The error says why they are refused.
pub fn read_blocks(blocks: &[Value]) -> Result<ReadBlocks, String> {
    let length: usize = blocks.iter().map(|block| block.to_string().chars().count()).sum();
    if length > MAX_LENGTH {
        return Err("msg_blocks_too_long".to_owned());
    }
    let mut read = ReadBlocks::default();
    let mut texts: Vec<String> = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    if blocks.len() > MAX_BLOCKS {
        return Err(invalid());
    }
    for block in blocks {
        match block["type"].as_str() {
            Some("rich_text") => texts.push(read_rich_text(&block["elements"])?),
            Some("section") => texts.push(text_of(&block["text"], MAX_SECTION)?),
            Some("markdown") => texts.push(text_of(block, 12_000)?),
            Some("divider") => {}
            Some("actions") => {
                let elements = elements(block, MAX_ELEMENTS)?;
                for element in elements {
                    let id = element["action_id"].as_str().unwrap_or_default();
                    let is_known = !id.is_empty() && ids.contains(&id);
                    ids.push(id);
                    let value = element["value"].as_str().unwrap_or_default();
                    let fits = element["type"] == "button"
                        && element["text"]["type"] == "plain_text"
                        && value.chars().count() <= MAX_VALUE
                        && id.len() <= MAX_ID;
                    if is_known || !fits {
                        return Err(invalid());
                    }
                    read.buttons.push((text_of(&element["text"], MAX_LABEL)?, value.to_owned()));
                }
            }
            _ => return Err(invalid()),
        }
    }
    read.text = texts.join("\n");
    Ok(read)
}

fn invalid() -> String {
    "invalid_blocks".to_owned()
}

fn text_of(object: &Value, max: usize) -> Result<String, String> {
    let text = object["text"].as_str().unwrap_or_default();
    let fits = !text.is_empty() && text.chars().count() <= max;
    if fits { Ok(text.to_owned()) } else { Err(invalid()) }
}

fn elements(object: &Value, max: usize) -> Result<&[Value], String> {
    let elements = object["elements"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fits = !elements.is_empty() && elements.len() <= max;
    if fits { Ok(elements) } else { Err(invalid()) }
}

fn read_rich_text(parts: &Value) -> Result<String, String> {
    let parts = parts.as_array().filter(|parts| !parts.is_empty()).ok_or_else(invalid)?;
    let mut texts = Vec::new();
    for part in parts {
        let is_code = part["type"] == "rich_text_preformatted";
        let known = ["rich_text_section", "rich_text_quote", "rich_text_preformatted"];
        if !known.iter().any(|kind| part["type"] == *kind) {
            return Err(invalid());
        }
        let mut text = String::new();
        for element in elements(part, usize::MAX)? {
            text.push_str(&read_element(element, is_code)?);
        }
        texts.push(text);
    }
    Ok(texts.join("\n"))
}

fn read_element(element: &Value, is_code: bool) -> Result<String, String> {
    const STYLES: [&str; 4] = ["bold", "italic", "strike", "code"];
    if let Some(style) = element.get("style") {
        let style = style.as_object().ok_or_else(invalid)?;
        let fits =
            style.iter().all(|(name, is_set)| STYLES.contains(&&**name) && is_set.is_boolean());
        if !fits || is_code {
            return Err(invalid());
        }
    }
    let text = element["text"].as_str().unwrap_or_default();
    let url = element["url"].as_str().unwrap_or_default();
    match element["type"].as_str() {
        Some("text") if !text.is_empty() && url.is_empty() => Ok(text.to_owned()),
        Some("link") if !url.is_empty() => {
            Ok(if text.is_empty() { url.to_owned() } else { text.to_owned() })
        }
        _ => Err(invalid()),
    }
}
