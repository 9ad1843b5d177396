//! The Anthropic Messages dialect: a reply as a stream of events or as one JSON message.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    reply::{Block, Body, Fault, Message, Stop, Usage},
    responder::{Context, json_response},
    wire::{Response, ResponseBody, StreamEnd},
};

pub(super) fn encode(body: &Body, context: &Context<'_>) -> Response {
    match body {
        Body::Message(message) if context.stream => {
            stream(frames(message, context), message.pause, StreamEnd::Complete)
        }
        Body::Message(message) => json_response(200, &whole(message, context)),
        Body::Status { code, message } => json_response(*code, &error(*code, message.as_deref())),
        Body::Fault(fault) => self::fault(*fault, context),
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

fn frames(message: &Message, context: &Context<'_>) -> Vec<Vec<u8>> {
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

fn start(context: &Context<'_>) -> Value {
    json!({"type": "message_start", "message": {"id": message_id(context), "type": "message",
        "role": "assistant", "model": context.model, "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage(context.usage, 1)}})
}

fn opened(block: &Block, index: usize, context: &Context<'_>) -> Value {
    match block {
        Block::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
        Block::Text(_) | Block::Words(_) => json!({"type": "text", "text": ""}),
        Block::Tool { name, .. } => {
            json!({"type": "tool_use", "id": tool_id(context, index), "name": name, "input": {}})
        }
    }
}

fn deltas(block: &Block) -> Vec<Value> {
    let pieces = block.pieces().into_iter();
    match block {
        Block::Thinking(_) => pieces
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .chain([json!({"type": "signature_delta", "signature": "c2ln"})])
            .collect(),
        Block::Text(_) | Block::Words(_) => {
            pieces.map(|piece| json!({"type": "text_delta", "text": piece})).collect()
        }
        Block::Tool { .. } => {
            pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect()
        }
    }
}

fn whole(message: &Message, context: &Context<'_>) -> Value {
    let blocks: Vec<Value> = message
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| match block {
            Block::Thinking(text) => {
                json!({"type": "thinking", "thinking": text, "signature": "c2ln"})
            }
            Block::Text(_) | Block::Words(_) => json!({"type": "text", "text": block.whole()}),
            Block::Tool { name, input } => {
                json!({"type": "tool_use", "id": tool_id(context, index), "name": name,
                    "input": input})
            }
        })
        .collect();
    json!({"id": message_id(context), "type": "message", "role": "assistant",
        "model": context.model, "content": blocks, "stop_reason": stop_reason(message),
        "stop_sequence": null, "usage": usage(context.usage, context.usage.output)})
}

fn stop_reason(message: &Message) -> &'static str {
    match message.stop {
        Stop::Refusal => "refusal",
        Stop::MaxTokens => "max_tokens",
        Stop::Natural if message.calls_tool() => "tool_use",
        Stop::Natural => "end_turn",
    }
}

fn usage(usage: Usage, output: u64) -> Value {
    json!({"input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write(),
        "cache_read_input_tokens": usage.cache_read, "output_tokens": output,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write_5m,
            "ephemeral_1h_input_tokens": usage.cache_write_1h},
        "service_tier": "standard"})
}

fn message_id(context: &Context<'_>) -> String {
    format!("msg_test{:04}", context.id)
}

fn tool_id(context: &Context<'_>, index: usize) -> String {
    format!("toolu_test{:04}_{index}", context.id)
}

fn event(data: &Value) -> Vec<u8> {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

fn stream(frames: Vec<Vec<u8>>, pause: Duration, end: StreamEnd) -> Response {
    Response {
        status: 200,
        headers: Vec::new(),
        content_type: "text/event-stream; charset=utf-8",
        wait: Duration::ZERO,
        body: ResponseBody::Stream { frames, pause, end },
    }
}

/// Returns a broken answer; without streaming, the JSON body is damaged in the same way.
fn fault(fault: Fault, context: &Context<'_>) -> Response {
    let begun = if context.stream { begun(context) } else { vec![br#"{"id":"msg_"#.to_vec()] };
    let now = Duration::ZERO;
    match fault {
        Fault::HangHeaders => never(),
        Fault::HangBody => stream(begun, now, StreamEnd::Hang),
        Fault::Cut => stream(begun, now, StreamEnd::Reset),
        Fault::NoStop => stream(begun, now, StreamEnd::Complete),
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
fn begun(context: &Context<'_>) -> Vec<Vec<u8>> {
    vec![
        event(&start(context)),
        event(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}})),
        event(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "partial "}})),
    ]
}

pub(super) fn never() -> Response {
    Response {
        status: 200,
        headers: Vec::new(),
        content_type: "",
        wait: Duration::ZERO,
        body: ResponseBody::Never,
    }
}

pub(super) fn html() -> Response {
    Response {
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
    use crate::model_server::reply::Reply;

    fn context(stream: bool) -> Context<'static> {
        Context { model: "m", stream, usage: Usage::default(), id: 7 }
    }

    #[test]
    fn the_streamed_blocks_add_up_to_the_whole_message() {
        let Body::Message(message) = Reply::message(vec![
            Block::Thinking("hm".into()),
            Block::Text("some longer text".into()),
            Block::Tool { name: "Bash".into(), input: json!({"command": "echo a"}) },
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
