//! The Anthropic Messages dialect: a reply as a stream of events or as one JSON message.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    http_wire::{EncodedResponse, ResponseBody, StreamEnd},
    reply::{Fault, ReplyBlock, ReplyBody, ReplyMessage, ReplyStop, ReplyUsage},
    responder::{ReplyContext, json_response},
};

pub(super) fn encode(body: &ReplyBody, context: &ReplyContext<'_>) -> EncodedResponse {
    match body {
        ReplyBody::Message(message) if context.stream => {
            stream(frames(message, context), message.pause, StreamEnd::Complete)
        }
        ReplyBody::Message(message) => json_response(200, &whole(message, context)),
        ReplyBody::Status { code, message } => {
            json_response(*code, &error(*code, message.as_deref()))
        }
        ReplyBody::Fault(fault) => self::fault(*fault, context),
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

fn frames(message: &ReplyMessage, context: &ReplyContext<'_>) -> Vec<Vec<u8>> {
    let mut frames = vec![event(&start(context))];
    for (index, block) in message.blocks.iter().enumerate() {
        let opened = event(&json!({"type": "content_block_start", "index": index,
            "content_block": opened(block, index, context)}));
        // The block's start event goes out with its first delta: pauses belong between deltas.
        let mut pending = opened;
        for delta in deltas(block) {
            pending.extend(event(&json!({"type": "content_block_delta", "index": index,
                "delta": delta})));
            frames.push(std::mem::take(&mut pending));
        }
        pending.extend(event(&json!({"type": "content_block_stop", "index": index})));
        frames.push(pending);
    }
    let mut end = event(&json!({"type": "message_delta",
        "delta": {"stop_reason": stop_reason(message), "stop_sequence": null},
        "usage": {"output_tokens": context.usage.output}}));
    end.extend(event(&json!({"type": "message_stop"})));
    frames.push(end);
    frames
}

fn start(context: &ReplyContext<'_>) -> Value {
    json!({"type": "message_start", "message": {"id": message_id(context), "type": "message",
        "role": "assistant", "model": context.model, "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage(context.usage, 1)}})
}

fn opened(block: &ReplyBlock, index: usize, context: &ReplyContext<'_>) -> Value {
    match block {
        ReplyBlock::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => json!({"type": "text", "text": ""}),
        ReplyBlock::Tool { name, .. } => {
            json!({"type": "tool_use", "id": tool_id(context, index), "name": name, "input": {}})
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
        ReplyBlock::Tool { .. } => {
            pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect()
        }
    }
}

fn whole(message: &ReplyMessage, context: &ReplyContext<'_>) -> Value {
    let blocks: Vec<Value> = message
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| match block {
            ReplyBlock::Thinking(text) => {
                json!({"type": "thinking", "thinking": text, "signature": "c2ln"})
            }
            ReplyBlock::Text(_) | ReplyBlock::Words(_) => {
                json!({"type": "text", "text": block.full_text()})
            }
            ReplyBlock::Tool { name, input } => {
                json!({"type": "tool_use", "id": tool_id(context, index), "name": name,
                    "input": input})
            }
        })
        .collect();
    json!({"id": message_id(context), "type": "message", "role": "assistant",
        "model": context.model, "content": blocks, "stop_reason": stop_reason(message),
        "stop_sequence": null, "usage": usage(context.usage, context.usage.output)})
}

fn stop_reason(message: &ReplyMessage) -> &'static str {
    match message.stop {
        ReplyStop::Refusal => "refusal",
        ReplyStop::MaxTokens => "max_tokens",
        ReplyStop::Natural if message.calls_tool() => "tool_use",
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

fn tool_id(context: &ReplyContext<'_>, index: usize) -> String {
    format!("toolu_test{:04}_{index}", context.id)
}

fn event(data: &Value) -> Vec<u8> {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

fn stream(frames: Vec<Vec<u8>>, pause: Duration, end: StreamEnd) -> EncodedResponse {
    EncodedResponse {
        status: 200,
        headers: Vec::new(),
        content_type: "text/event-stream; charset=utf-8",
        wait: Duration::ZERO,
        body: ResponseBody::Stream { frames, pause, end },
    }
}

/// Returns a broken answer; without streaming, the JSON body is damaged in the same way.
fn fault(fault: Fault, context: &ReplyContext<'_>) -> EncodedResponse {
    let begun = if context.stream {
        frames_to_first_delta(context)
    } else {
        vec![br#"{"id":"msg_"#.to_vec()]
    };
    let now = Duration::ZERO;
    match fault {
        Fault::HangHeaders => no_response(),
        Fault::HangBody => stream(begun, now, StreamEnd::Hang),
        Fault::ConnectionReset => stream(begun, now, StreamEnd::Reset),
        Fault::MissingStop => stream(begun, now, StreamEnd::Complete),
        Fault::Empty => stream(Vec::new(), now, StreamEnd::Complete),
        Fault::BadJson => {
            let bad = b"event: content_block_start\ndata: {not json\n\n".to_vec();
            stream(vec![event(&start(context)), bad], now, StreamEnd::Complete)
        }
        Fault::ErrorEvent => {
            let error = event(&error(529, None));
            stream(vec![event(&start(context)), error], now, StreamEnd::Complete)
        }
        Fault::Html => html(),
    }
}

/// Returns the frames of a message that stops after its first delta.
fn frames_to_first_delta(context: &ReplyContext<'_>) -> Vec<Vec<u8>> {
    vec![
        event(&start(context)),
        event(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}})),
        event(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "partial "}})),
    ]
}

pub(super) fn no_response() -> EncodedResponse {
    EncodedResponse {
        status: 200,
        headers: Vec::new(),
        content_type: "",
        wait: Duration::ZERO,
        body: ResponseBody::Never,
    }
}

pub(super) fn html() -> EncodedResponse {
    EncodedResponse {
        status: 200,
        headers: Vec::new(),
        content_type: "text/html",
        wait: Duration::ZERO,
        body: ResponseBody::Whole(b"<html><body>gateway page</body></html>".to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_model::reply::Reply;

    fn context(stream: bool) -> ReplyContext<'static> {
        ReplyContext { model: "m", stream, usage: ReplyUsage::default(), id: 7 }
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
        let bytes = frames(&message, &context(true)).concat();
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
        let whole = whole(&message, &context(false));
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
