//! `POST /v1/messages/count_tokens`: our own estimate, marked as such. Only the vendor could count
//! exactly, and asking it would use up the owner's quota.

use angelia_core::model::{Content, MessagePart};

use super::{
    super::dialect::{InvalidRequest, ModelRequest, estimate_tokens, json},
    decode,
    wire::TokenCount,
};

/// The approximate tokens of the largest image after scaling down.
const IMAGE_TOKENS: u64 = 1600;

/// The approximate overhead in tokens of every message and every definition.
const FRAME_TOKENS: u64 = 4;

/// Returns the body of the response.
pub fn count_tokens(body: &[u8]) -> Result<Vec<u8>, InvalidRequest> {
    let (model_request, _) = decode::decode_request(json::parse_body(body)?)?;
    let count = TokenCount { input_tokens: estimate(&model_request).max(1), estimated: true };
    // Writing to memory cannot fail.
    Ok(serde_json::to_vec(&count).unwrap_or_default())
}

fn estimate(model_request: &ModelRequest) -> u64 {
    let system = model_request.system.as_deref().map_or(0, estimate_tokens);
    let tools = model_request.tools.iter().map(|tool| {
        let schema = estimate_tokens(tool.input_schema.get());
        FRAME_TOKENS + estimate_tokens(&tool.name) + estimate_tokens(&tool.description) + schema
    });
    let messages = model_request.messages.iter().map(|message| {
        let parts = message.parts.iter().map(part);
        FRAME_TOKENS + parts.sum::<u64>()
    });
    system + tools.sum::<u64>() + messages.sum::<u64>()
}

fn part(part: &MessagePart) -> u64 {
    match part {
        MessagePart::Content(content) => self::content(content),
        MessagePart::Thinking { text, .. } => estimate_tokens(text),
        MessagePart::ToolUse { id, name, input } => {
            FRAME_TOKENS
                + estimate_tokens(id.as_str())
                + estimate_tokens(name)
                + estimate_tokens(input.get())
        }
        MessagePart::ToolResult { id, content, .. } => {
            FRAME_TOKENS
                + estimate_tokens(id.as_str())
                + content.iter().map(self::content).sum::<u64>()
        }
    }
}

fn content(content: &Content) -> u64 {
    match content {
        Content::Text(text) => estimate_tokens(text),
        Content::Image { .. } => IMAGE_TOKENS,
    }
}
