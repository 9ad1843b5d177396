//! The OpenAI Responses dialect: a reply as a stream of typed events or as one JSON response.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    http_wire::{EncodedResponse, ResponseBody, StreamEnd},
    messages,
    reply::{Fault, ReplyBlock, ReplyBody, ReplyMessage, ReplyStop, ReplyUsage},
    responder::{ReplyContext, json_response},
};

pub(super) fn encode(body: &ReplyBody, context: &ReplyContext<'_>) -> EncodedResponse {
    match body {
        ReplyBody::Message(message) if context.stream => {
            stream(frames(message, context), message.pause, StreamEnd::Complete)
        }
        ReplyBody::Message(message) => json_response(200, &closed(message, context)),
        ReplyBody::Status { code, message } => {
            json_response(*code, &error(*code, message.as_deref()))
        }
        ReplyBody::Fault(fault) => self::fault(*fault, context),
    }
}

fn error(status: u16, message: Option<&str>) -> Value {
    let (kind, code, text) = match status {
        401 => ("invalid_request_error", "invalid_api_key", "Incorrect API key provided"),
        404 => ("invalid_request_error", "model_not_found", "The model does not exist"),
        429 => ("requests", "rate_limit_exceeded", "Rate limit reached"),
        400..500 => ("invalid_request_error", "invalid_request", "invalid request"),
        503 => ("server_error", "server_is_overloaded", "Our servers are currently overloaded"),
        _ => ("server_error", "server_error", "The server had an error"),
    };
    json!({"error": {"message": message.unwrap_or(text), "type": kind, "code": code,
        "param": null}})
}

fn frames(message: &ReplyMessage, context: &ReplyContext<'_>) -> Vec<Vec<u8>> {
    let mut events = Sequence::default();
    let mut frames = vec![events.event("response.created", json!({"response": open(context)}))];
    for (index, block) in message.blocks.iter().enumerate() {
        let item = item(block, index, context);
        let mut pending = events.event(
            "response.output_item.added",
            json!({"output_index": index, "item": opened(&item)}),
        );
        if let Some(part) = part(block) {
            pending.extend(events.event(
                part.added,
                json!({"item_id": item["id"], "output_index": index, part.index: 0,
                    "part": {"type": part.kind, "text": "", "annotations": []}}),
            ));
        }
        // The item's opening events go out with its first delta: pauses belong between deltas.
        let (delta, done, whole) = delta_names(block);
        for piece in block.chunks() {
            pending.extend(events.event(
                delta,
                json!({"item_id": item["id"], "output_index": index, "content_index": 0,
                    "summary_index": 0, "delta": piece}),
            ));
            frames.push(std::mem::take(&mut pending));
        }
        pending.extend(events.event(
            done,
            json!({"item_id": item["id"], "output_index": index, "content_index": 0,
                "summary_index": 0, whole: block.full_text()}),
        ));
        if let Some(part) = part(block) {
            pending.extend(events.event(
                part.done,
                json!({"item_id": item["id"], "output_index": index, part.index: 0,
                    "part": {"type": part.kind, "text": block.full_text(), "annotations": []}}),
            ));
        }
        pending.extend(
            events.event("response.output_item.done", json!({"output_index": index, "item": item})),
        );
        frames.push(pending);
    }
    let last = match message.stop {
        ReplyStop::Natural => "response.completed",
        ReplyStop::MaxTokens | ReplyStop::Refusal => "response.incomplete",
    };
    frames.push(events.event(last, json!({"response": closed(message, context)})));
    frames
}

/// The names for the part inside an item that has its own `added` and `done` events.
struct PartEventNames {
    kind: &'static str,
    added: &'static str,
    done: &'static str,
    index: &'static str,
}

fn part(block: &ReplyBlock) -> Option<PartEventNames> {
    match block {
        ReplyBlock::Thinking(_) => Some(PartEventNames {
            kind: "summary_text",
            added: "response.reasoning_summary_part.added",
            done: "response.reasoning_summary_part.done",
            index: "summary_index",
        }),
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => Some(PartEventNames {
            kind: "output_text",
            added: "response.content_part.added",
            done: "response.content_part.done",
            index: "content_index",
        }),
        ReplyBlock::Tool { .. } => None,
    }
}

/// Returns the names of the delta event, of the closing event, and of the closing event's field
/// with the whole text.
fn delta_names(block: &ReplyBlock) -> (&'static str, &'static str, &'static str) {
    match block {
        ReplyBlock::Thinking(_) => (
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "text",
        ),
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => {
            ("response.output_text.delta", "response.output_text.done", "text")
        }
        // A tool whose input is a string instead of an object is a custom tool.
        ReplyBlock::Tool { input: Value::String(_), .. } => (
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "input",
        ),
        ReplyBlock::Tool { .. } => (
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "arguments",
        ),
    }
}

fn item(block: &ReplyBlock, index: usize, context: &ReplyContext<'_>) -> Value {
    let id = context.id;
    match block {
        ReplyBlock::Thinking(text) => {
            json!({"id": format!("rs_test{id:04}_{index}"), "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text}], "encrypted_content": null})
        }
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => {
            json!({"id": format!("msg_test{id:04}_{index}"), "type": "message",
                "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": block.full_text(), "annotations": []}]})
        }
        ReplyBlock::Tool { name, input: Value::String(input) } => {
            json!({"id": format!("ctc_test{id:04}_{index}"), "type": "custom_tool_call",
                "call_id": format!("call_test{id:04}_{index}"), "name": name, "input": input,
                "status": "completed"})
        }
        ReplyBlock::Tool { name, input } => {
            // An MCP server's tool is called by the server's name (`namespace`) and its own name.
            let (namespace, name) = match name.rsplit_once("__") {
                Some((server, tool)) if server.starts_with("mcp__") => (Some(server), tool),
                _ => (None, name.as_str()),
            };
            let mut item = json!({"id": format!("fc_test{id:04}_{index}"), "type": "function_call",
                "call_id": format!("call_test{id:04}_{index}"), "name": name,
                "arguments": input.to_string(), "status": "completed"});
            if let Some(namespace) = namespace {
                item["namespace"] = namespace.into();
            }
            item
        }
    }
}

/// Returns the item as `output_item.added` announces it: in progress and without content.
fn opened(item: &Value) -> Value {
    let mut item = item.clone();
    for (field, empty) in [
        ("content", json!([])),
        ("summary", json!([])),
        ("arguments", json!("")),
        ("input", json!("")),
    ] {
        if item.get(field).is_some() {
            item[field] = empty;
        }
    }
    if item.get("status").is_some() {
        item["status"] = json!("in_progress");
    }
    item
}

fn open(context: &ReplyContext<'_>) -> Value {
    json!({"id": format!("resp_test{:04}", context.id), "object": "response",
        "created_at": 1_767_225_600, "status": "in_progress", "model": context.model,
        "output": [], "usage": null})
}

fn closed(message: &ReplyMessage, context: &ReplyContext<'_>) -> Value {
    let mut response = open(context);
    let items = message.blocks.iter().enumerate();
    response["output"] = items.map(|(index, block)| item(block, index, context)).collect();
    response["usage"] = usage(context.usage);
    response["status"] = json!("completed");
    let reason = match message.stop {
        ReplyStop::Natural => return response,
        ReplyStop::MaxTokens => "max_output_tokens",
        ReplyStop::Refusal => "content_filter",
    };
    response["status"] = json!("incomplete");
    response["incomplete_details"] = json!({"reason": reason});
    response
}

/// Builds the usage object. This dialect counts cached tokens as part of the input.
fn usage(usage: ReplyUsage) -> Value {
    let input = usage.input + usage.cache_read + usage.cache_write();
    json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + usage.output})
}

/// Encodes the events of one stream and numbers them.
#[derive(Default)]
struct Sequence(u64);

impl Sequence {
    fn event(&mut self, name: &str, mut data: Value) -> Vec<u8> {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.0);
        self.0 += 1;
        format!("event: {name}\ndata: {data}\n\n").into_bytes()
    }
}

fn stream(frames: Vec<Vec<u8>>, pause: Duration, end: StreamEnd) -> EncodedResponse {
    EncodedResponse {
        status: 200,
        headers: Vec::new(),
        content_type: "text/event-stream",
        wait: Duration::ZERO,
        body: ResponseBody::Stream { frames, pause, end },
    }
}

fn fault(fault: Fault, context: &ReplyContext<'_>) -> EncodedResponse {
    let mut events = Sequence::default();
    let created = events.event("response.created", json!({"response": open(context)}));
    let begun = vec![
        created.clone(),
        events.event(
            "response.output_text.delta",
            json!({"item_id": "msg_test", "output_index": 0, "content_index": 0,
                "delta": "partial "}),
        ),
    ];
    let now = Duration::ZERO;
    match fault {
        Fault::HangHeaders => messages::no_response(),
        Fault::Html => messages::html(),
        Fault::HangBody => stream(begun, now, StreamEnd::Hang),
        Fault::ConnectionReset => stream(begun, now, StreamEnd::Reset),
        Fault::MissingStop => stream(begun, now, StreamEnd::Complete),
        Fault::Empty => stream(Vec::new(), now, StreamEnd::Complete),
        Fault::BadJson => {
            let bad = b"event: response.output_text.delta\ndata: {not json\n\n".to_vec();
            stream(vec![created, bad], now, StreamEnd::Complete)
        }
        Fault::ErrorEvent => {
            let mut failed = open(context);
            failed["status"] = json!("failed");
            failed["error"] = error(500, None)["error"].take();
            let failed = events.event("response.failed", json!({"response": failed}));
            stream(vec![created, failed], now, StreamEnd::Complete)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_model::reply::Reply;

    #[test]
    fn a_stream_opens_every_item_and_closes_it_whole() {
        let ReplyBody::Message(message) = Reply::message(vec![
            ReplyBlock::Thinking("hm".into()),
            ReplyBlock::Text("hello there, you".into()),
            ReplyBlock::Tool { name: "shell".into(), input: json!({"cmd": "ls"}) },
        ])
        .body
        else {
            panic!("a message")
        };
        let context =
            ReplyContext { model: "m", stream: true, usage: ReplyUsage::default(), id: 1 };
        let text = String::from_utf8(frames(&message, &context).concat()).unwrap();
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], json!(number));
        }
        let of = |name: &str| events.iter().filter(|event| event["type"] == name).count();
        assert_eq!((of("response.output_item.added"), of("response.output_item.done")), (3, 3));
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.completed");
        assert_eq!(last["response"]["output"][1]["content"][0]["text"], "hello there, you");
        assert_eq!(last["response"]["output"][2]["arguments"], r#"{"cmd":"ls"}"#);
        assert_eq!(last["response"]["usage"]["input_tokens_details"]["cached_tokens"], 3000);
    }
}
