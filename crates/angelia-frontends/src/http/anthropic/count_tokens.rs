//! `POST /v1/messages/count_tokens`: our own estimate, marked as one. Only the vendor could count,
//! and asking it costs the owner's quota.

use angelia_core::model::{Content, Part};

use super::{
    super::dialect::{Ask, Refused, estimate::tokens, json},
    decode,
    wire::Count,
};

/// The approximate tokens of the largest image after it was scaled down.
const IMAGE: u64 = 1600;

/// The approximate tokens around every message and every definition.
const FRAME: u64 = 4;

/// Returns the body of the response.
pub fn count_tokens(body: &[u8]) -> Result<Vec<u8>, Refused> {
    let (ask, _) = decode::read(json::body(body)?)?;
    let count = Count { input_tokens: estimate(&ask).max(1), estimated: true };
    // Writing numbers into memory cannot fail.
    Ok(serde_json::to_vec(&count).unwrap_or_default())
}

fn estimate(ask: &Ask) -> u64 {
    let system = ask.system.as_deref().map_or(0, tokens);
    let tools = ask.tools.iter().map(|tool| {
        let schema = tokens(tool.input_schema.get());
        FRAME + tokens(&tool.name) + tokens(&tool.description) + schema
    });
    let messages = ask.messages.iter().map(|message| {
        let parts = message.parts.iter().map(part);
        FRAME + parts.sum::<u64>()
    });
    system + tools.sum::<u64>() + messages.sum::<u64>()
}

fn part(part: &Part) -> u64 {
    match part {
        Part::Content(content) => self::content(content),
        Part::Thinking { text, .. } => tokens(text),
        Part::ToolUse { id, name, input } => {
            FRAME + tokens(id.as_str()) + tokens(name) + tokens(input.get())
        }
        Part::ToolResult { id, content, .. } => {
            FRAME + tokens(id.as_str()) + content.iter().map(self::content).sum::<u64>()
        }
    }
}

fn content(content: &Content) -> u64 {
    match content {
        Content::Text(text) => tokens(text),
        Content::Image { .. } => IMAGE,
    }
}
