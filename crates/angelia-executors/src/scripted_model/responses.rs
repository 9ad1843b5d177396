//! The OpenAI Responses dialect: a reply as a stream of typed events or as one JSON response.

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, FramedBlock, FramedMessage, event},
    fault::ApiError,
    openai_error,
    reply::{ReplyBlock, ReplyMessage, ReplyStop, ReplyUsage},
    responder::ReplyContext,
};

pub(super) struct ResponsesDialect;

impl Dialect for ResponsesDialect {
    fn frames(message: &ReplyMessage, context: &ReplyContext<'_>) -> FramedMessage {
        let mut events = Sequence::default();
        let head = events.event("response.created", json!({"response": open(context)}));
        let blocks = message.blocks.iter().enumerate();
        let blocks =
            blocks.map(|(index, block)| framed(message, block, index, context, &mut events));
        let blocks = blocks.collect();
        let last = match message.stop {
            ReplyStop::Natural => "response.completed",
            ReplyStop::MaxTokens | ReplyStop::Refusal => "response.incomplete",
        };
        let end = events.event(last, json!({"response": Self::document(message, context)}));
        FramedMessage { head, blocks, end }
    }

    fn document(message: &ReplyMessage, context: &ReplyContext<'_>) -> Value {
        let mut response = open(context);
        let items = message.blocks.iter().enumerate();
        response["output"] =
            items.map(|(index, block)| item(block, index, message, context)).collect();
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

    fn error(status: u16, message: Option<&str>) -> Value {
        openai_error::of_status(status, message)
    }

    fn api_error(error: ApiError) -> (u16, Value) {
        openai_error::of_kind(error)
    }

    const OVERLOADED: u16 = 500;

    fn error_frame(status: u16, context: &ReplyContext<'_>) -> Vec<u8> {
        let mut failed = open(context);
        failed["status"] = json!("failed");
        failed["error"] = openai_error::of_status(status, None)["error"].take();
        // Clients at most use the number to notice gaps, so the frames before it are not counted.
        Sequence::default().event("response.failed", json!({"response": failed}))
    }

    fn unreadable_event() -> &'static str {
        "response.output_text.delta"
    }

    /// Returns a comment, as servers send it, because this dialect has no event for keep-alives.
    fn keep_alive() -> Vec<u8> {
        b": keep-alive\n\n".to_vec()
    }
}

fn framed(
    message: &ReplyMessage,
    block: &ReplyBlock,
    index: usize,
    context: &ReplyContext<'_>,
    events: &mut Sequence,
) -> FramedBlock {
    let item = item(block, index, message, context);
    let index = message.sent_index(index);
    let mut framed = FramedBlock {
        open: events.event(
            "response.output_item.added",
            json!({"output_index": index, "item": opened(&item)}),
        ),
        ..FramedBlock::default()
    };
    if let Some(part) = part(block) {
        framed.open.extend(events.event(
            part.added,
            json!({"item_id": item["id"], "output_index": index, part.index: 0,
                "part": {"type": part.kind, "text": "", "annotations": []}}),
        ));
    }
    let (delta, done, whole) = delta_names(block);
    for piece in block.chunks() {
        framed.deltas.push(events.event(
            delta,
            json!({"item_id": item["id"], "output_index": index, "content_index": 0,
                "summary_index": 0, "delta": piece}),
        ));
    }
    framed.close = events.event(
        done,
        json!({"item_id": item["id"], "output_index": index, "content_index": 0,
            "summary_index": 0, whole: block.full_text()}),
    );
    if let Some(part) = part(block) {
        framed.close.extend(events.event(
            part.done,
            json!({"item_id": item["id"], "output_index": index, part.index: 0,
                "part": {"type": part.kind, "text": block.full_text(), "annotations": []}}),
        ));
    }
    framed.close.extend(
        events.event("response.output_item.done", json!({"output_index": index, "item": item})),
    );
    framed
}

/// The event and field names for a part of an item that has its own `added` and `done` events.
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
        ReplyBlock::Tool { .. } | ReplyBlock::RawTool { .. } => None,
    }
}

/// Returns the names of the delta event, of the closing event, and of the closing event's field
/// that holds the whole text.
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
        ReplyBlock::Tool { .. } | ReplyBlock::RawTool { .. } => (
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "arguments",
        ),
    }
}

fn item(
    block: &ReplyBlock,
    index: usize,
    message: &ReplyMessage,
    context: &ReplyContext<'_>,
) -> Value {
    let id = context.id;
    let mut item = match block {
        ReplyBlock::Thinking(text) => {
            json!({"id": format!("rs_test{id:04}_{index}"), "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text}],
                "encrypted_content": "c2VhbGVk"})
        }
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => {
            json!({"id": format!("msg_test{id:04}_{index}"), "type": "message",
                "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": block.full_text(), "annotations": []}]})
        }
        ReplyBlock::Tool { name, input: Value::String(input) } => {
            json!({"id": format!("ctc_test{id:04}_{index}"), "type": "custom_tool_call",
                "name": name, "input": input, "status": "completed"})
        }
        ReplyBlock::Tool { name, .. } | ReplyBlock::RawTool { name, .. } => {
            // An MCP tool is called by its server's name (`namespace`) and its own name, unless the
            // client offers it under one combined name, or offers `tool_call`, which takes a
            // combined name.
            let offers = |name: &str| {
                let tool = format!(r#""name":"{name}""#);
                memchr::memmem::find(context.request, tool.as_bytes()).is_some()
            };
            let is_one_name = offers(name) || offers("tool_call");
            let (namespace, name) = match name.rsplit_once("__") {
                Some((server, tool)) if server.starts_with("mcp__") && !is_one_name => {
                    (Some(server), tool)
                }
                _ => (None, name.as_str()),
            };
            let mut call = json!({"id": format!("fc_test{id:04}_{index}"), "type": "function_call",
                "name": name, "arguments": block.full_text(), "status": "completed"});
            if let Some(namespace) = namespace {
                call["namespace"] = namespace.into();
            }
            call
        }
    };
    if block.tool_name().is_some()
        && let Some(call_id) = message.call_id("call", id, index)
    {
        item["call_id"] = call_id.into();
    }
    item
}

/// Returns the item as announced by `output_item.added`: in progress and without content.
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

/// Builds the usage object. This dialect counts cached tokens as part of the input.
fn usage(usage: ReplyUsage) -> Value {
    let input = usage.inclusive_input();
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
        event(name, &data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_model::reply::{Reply, ReplyBody};

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
        let usage = ReplyUsage::default();
        let context = ReplyContext {
            model: "m",
            stream: true,
            wants_usage: false,
            usage,
            id: 1,
            request: b"",
        };
        let text = ResponsesDialect::frames(&message, &context).into_frames().concat();
        let text = String::from_utf8(text).unwrap();
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
