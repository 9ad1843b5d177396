//! The Anthropic Messages dialect: a reply as a stream of events or as one JSON message.

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, FramedBlock, FramedMessage, event},
    fault::ApiError,
    reply::{ReplyBlock, ReplyMessage, ReplyStop, ReplyUsage},
    responder::ReplyContext,
};

pub(super) struct MessagesDialect;

impl Dialect for MessagesDialect {
    fn frames(message: &ReplyMessage, context: &ReplyContext<'_>) -> FramedMessage {
        let mut end = typed(&json!({"type": "message_delta",
            "delta": {"stop_reason": stop_reason(message), "stop_sequence": null},
            "usage": {"output_tokens": context.usage.output}}));
        end.extend(typed(&json!({"type": "message_stop"})));
        let blocks = message.blocks.iter().enumerate();
        FramedMessage {
            head: typed(&start(context)),
            blocks: blocks.map(|(index, block)| framed(message, block, index, context)).collect(),
            end,
        }
    }

    fn document(message: &ReplyMessage, context: &ReplyContext<'_>) -> Value {
        let blocks = message.blocks.iter().enumerate();
        let blocks: Vec<Value> =
            blocks.map(|(index, block)| whole(block, call_id(message, index, context))).collect();
        json!({"id": message_id(context), "type": "message", "role": "assistant",
            "model": context.model, "content": blocks, "stop_reason": stop_reason(message),
            "stop_sequence": null, "usage": usage(context.usage, context.usage.output)})
    }

    fn error(status: u16, message: Option<&str>) -> Value {
        error(status, message)
    }

    fn api_error(refusal: ApiError) -> (u16, Value) {
        let (status, words) = match refusal {
            ApiError::InsufficientQuota => (402, "Your credit balance is too low.".to_owned()),
            ApiError::Overflow { window } => {
                (400, format!("prompt is too long: {} tokens > {window} maximum", window + 1_000))
            }
            ApiError::ReasoningRejected => {
                (400, "messages.1.content.0: Invalid `signature` in `thinking` block".to_owned())
            }
            ApiError::ImageRefused => {
                (400, "messages.0: this model does not support image input".to_owned())
            }
            ApiError::ImageTooLarge => {
                let words = "messages.0.content.1: image exceeds 5 MB maximum: 6000000 bytes";
                (400, words.to_owned())
            }
            ApiError::OutputCap { limit } => {
                (400, format!("max_tokens: {} > {limit}, the limit of this model", limit * 2))
            }
        };
        (status, error(status, Some(&words)))
    }

    const OVERLOADED: u16 = 529;

    fn error_frame(status: u16, _context: &ReplyContext<'_>) -> Vec<u8> {
        typed(&error(status, None))
    }

    fn unreadable_event() -> &'static str {
        "content_block_start"
    }

    fn keep_alive() -> Vec<u8> {
        typed(&json!({"type": "ping"}))
    }
}

/// Returns the error object for a status.
pub(super) fn error(status: u16, message: Option<&str>) -> Value {
    let (kind, text) = match status {
        400 => ("invalid_request_error", "invalid request"),
        401 => ("authentication_error", "invalid x-api-key"),
        402 => ("billing_error", "billing"),
        403 => ("permission_error", "forbidden"),
        404 => ("not_found_error", "model: not found"),
        413 => ("request_too_large", "Request exceeds the maximum size"),
        429 => ("rate_limit_error", "This request would exceed your rate limit."),
        529 => ("overloaded_error", "Overloaded"),
        _ => ("api_error", "Internal server error"),
    };
    json!({"type": "error", "error": {"type": kind, "message": message.unwrap_or(text)}})
}

fn framed(
    message: &ReplyMessage,
    block: &ReplyBlock,
    index: usize,
    context: &ReplyContext<'_>,
) -> FramedBlock {
    let id = call_id(message, index, context);
    let sent = message.sent_index(index);
    let delta = |delta: Value| {
        typed(&json!({"type": "content_block_delta", "index": sent, "delta": delta}))
    };
    FramedBlock {
        open: typed(&json!({"type": "content_block_start", "index": sent,
            "content_block": opened(block, id)})),
        deltas: deltas(block).into_iter().map(delta).collect(),
        close: typed(&json!({"type": "content_block_stop", "index": sent})),
    }
}

fn start(context: &ReplyContext<'_>) -> Value {
    json!({"type": "message_start", "message": {"id": message_id(context), "type": "message",
        "role": "assistant", "model": context.model, "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage(context.usage, 1)}})
}

fn opened(block: &ReplyBlock, call_id: Option<String>) -> Value {
    match block {
        ReplyBlock::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => json!({"type": "text", "text": ""}),
        ReplyBlock::Tool { name, .. } | ReplyBlock::RawTool { name, .. } => {
            tool_use(name, call_id, &json!({}))
        }
    }
}

fn deltas(block: &ReplyBlock) -> Vec<Value> {
    let pieces = block.chunks().into_iter();
    match block {
        ReplyBlock::Thinking(_) => pieces
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .chain([json!({"type": "signature_delta", "signature": "c2ln"})])
            .collect(),
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => {
            pieces.map(|piece| json!({"type": "text_delta", "text": piece})).collect()
        }
        ReplyBlock::Tool { .. } | ReplyBlock::RawTool { .. } => {
            pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect()
        }
    }
}

fn whole(block: &ReplyBlock, call_id: Option<String>) -> Value {
    match block {
        ReplyBlock::Thinking(text) => {
            json!({"type": "thinking", "thinking": text, "signature": "c2ln"})
        }
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => {
            json!({"type": "text", "text": block.full_text()})
        }
        ReplyBlock::Tool { name, input } => tool_use(name, call_id, input),
        ReplyBlock::RawTool { name, arguments } => {
            let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
            tool_use(name, call_id, &input)
        }
    }
}

fn tool_use(name: &str, id: Option<String>, input: &Value) -> Value {
    let mut block = json!({"type": "tool_use", "name": name, "input": input});
    if let Some(id) = id {
        block["id"] = id.into();
    }
    block
}

fn call_id(message: &ReplyMessage, index: usize, context: &ReplyContext<'_>) -> Option<String> {
    message.call_id("toolu", context.id, index)
}

fn stop_reason(message: &ReplyMessage) -> &'static str {
    match message.stop {
        ReplyStop::Refusal => "refusal",
        ReplyStop::MaxTokens => "max_tokens",
        ReplyStop::Natural if message.stops_for_tools() => "tool_use",
        ReplyStop::Natural => "end_turn",
    }
}

fn usage(usage: ReplyUsage, output: u64) -> Value {
    json!({"input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write(),
        "cache_read_input_tokens": usage.cache_read, "output_tokens": output,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write_5m,
            "ephemeral_1h_input_tokens": usage.cache_write_1h},
        "service_tier": "standard"})
}

fn message_id(context: &ReplyContext<'_>) -> String {
    format!("msg_test{:04}", context.id)
}

/// Encodes an event under the name in its `type` field.
fn typed(data: &Value) -> Vec<u8> {
    event(data["type"].as_str().unwrap_or_default(), data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_model::reply::{Reply, ReplyBody};

    fn context(stream: bool) -> ReplyContext<'static> {
        let usage = ReplyUsage::default();
        ReplyContext { model: "m", stream, wants_usage: false, usage, id: 7, request: b"" }
    }

    #[test]
    fn the_streamed_blocks_add_up_to_the_whole_message() {
        let ReplyBody::Message(message) = Reply::message(vec![
            ReplyBlock::Thinking("hm".into()),
            ReplyBlock::Text("some longer text".into()),
            ReplyBlock::Tool { name: "Bash".into(), input: json!({"command": "echo a"}) },
        ])
        .body
        else {
            panic!("a message")
        };
        let bytes = MessagesDialect::frames(&message, &context(true)).into_frames().concat();
        let text = String::from_utf8(bytes).unwrap();
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let input: String =
            events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
        assert_eq!(input, r#"{"command":"echo a"}"#);
        assert_eq!(events[0]["message"]["id"], "msg_test0007");
        assert_eq!(events.last().unwrap()["type"], "message_stop");
        let whole = MessagesDialect::document(&message, &context(false));
        assert_eq!(whole["content"][2]["input"]["command"], "echo a");
        assert_eq!(whole["stop_reason"], "tool_use");
        assert_eq!(whole["usage"]["cache_creation_input_tokens"], 120);
    }

    #[test]
    fn a_status_names_its_kind_of_error() {
        assert_eq!(error(529, None)["error"]["type"], "overloaded_error");
        assert_eq!(error(400, Some("too long"))["error"]["message"], "too long");
    }
}
