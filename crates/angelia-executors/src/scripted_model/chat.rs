//! The OpenAI Chat Completions dialect: a reply as a stream of chunks or as one completion.

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, FramedBlock, FramedMessage, event},
    fault::{ApiError, WireQuirk},
    openai_error,
    reply::{ReplyBlock, ReplyMessage, ReplyStop, ReplyUsage},
    responder::ReplyContext,
};

pub(super) struct ChatDialect;

impl Dialect for ChatDialect {
    fn frames(message: &ReplyMessage, context: &ReplyContext<'_>) -> FramedMessage {
        let head = json!({"role": "assistant", "content": ""});
        let mut calls = 0;
        let mut blocks = Vec::new();
        for block in &message.blocks {
            blocks.push(framed(message, block, calls, context));
            calls += usize::from(block.tool_name().is_some());
        }
        let mut end = chunk(context, &json!({}), Some(finish_reason(message)));
        if context.wants_usage {
            end.extend(event("", &body(context, &json!([]), usage(context.usage))));
        }
        end.extend(event("", &"[DONE]"));
        FramedMessage { head: chunk(context, &head, None), blocks, end }
    }

    fn document(message: &ReplyMessage, context: &ReplyContext<'_>) -> Value {
        let mut answer = json!({"role": "assistant", "content": null});
        let mut calls = Vec::new();
        for block in &message.blocks {
            let (field, more) = match block {
                ReplyBlock::Thinking(text) => ("reasoning_content", text.clone()),
                ReplyBlock::Text(_) | ReplyBlock::Words(_) => ("content", block.full_text()),
                ReplyBlock::Tool { .. } | ReplyBlock::RawTool { .. } => {
                    let arguments = block.full_text();
                    calls.push(call(message, block, calls.len(), context, &arguments));
                    continue;
                }
            };
            let before = answer[field].as_str().unwrap_or_default();
            answer[field] = format!("{before}{more}").into();
        }
        if !calls.is_empty() {
            answer["tool_calls"] = calls.into();
        }
        let choice =
            json!({"index": 0, "message": answer, "finish_reason": finish_reason(message)});
        let mut completion = body(context, &json!([choice]), usage(context.usage));
        completion["object"] = "chat.completion".into();
        completion
    }

    fn error(status: u16, message: Option<&str>) -> Value {
        openai_error::of_status(status, message)
    }

    fn api_error(error: ApiError) -> (u16, Value) {
        openai_error::of_kind(error)
    }

    const OVERLOADED: u16 = 503;

    fn error_frame(status: u16, _context: &ReplyContext<'_>) -> Vec<u8> {
        event("", &openai_error::of_status(status, None))
    }

    fn unreadable_event() -> &'static str {
        ""
    }

    fn keep_alive() -> Vec<u8> {
        b": PROCESSING\n\n".to_vec()
    }
}

/// Returns the frames of a block. `calls` is the number of calls before it.
fn framed(
    message: &ReplyMessage,
    block: &ReplyBlock,
    calls: usize,
    context: &ReplyContext<'_>,
) -> FramedBlock {
    let delta = |delta: &Value| chunk(context, delta, None);
    let field = match block {
        ReplyBlock::Thinking(_) => "reasoning_content",
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => "content",
        ReplyBlock::Tool { .. } | ReplyBlock::RawTool { .. } => {
            return framed_call(message, block, calls, context);
        }
    };
    let deltas = block.chunks().into_iter().map(|piece| delta(&json!({field: piece}))).collect();
    FramedBlock { deltas, ..FramedBlock::default() }
}

fn framed_call(
    message: &ReplyMessage,
    block: &ReplyBlock,
    index: usize,
    context: &ReplyContext<'_>,
) -> FramedBlock {
    let piece = |piece: Value| chunk(context, &json!({"tool_calls": [piece]}), None);
    if message.quirk == Some(WireQuirk::ObjectArguments) {
        let mut whole = call(message, block, index, context, "");
        let arguments = serde_json::from_str(&block.full_text()).unwrap_or_default();
        whole["function"]["arguments"] = arguments;
        return FramedBlock { open: piece(whole), ..FramedBlock::default() };
    }
    let more = |arguments: String| json!({"index": message.sent_index(index), "function": {"arguments": arguments}});
    FramedBlock {
        open: piece(call(message, block, index, context, "")),
        deltas: block.chunks().into_iter().map(|chunk| piece(more(chunk))).collect(),
        close: Vec::new(),
    }
}

/// Returns a call with its name and id, both for its announcement and for a completion.
fn call(
    message: &ReplyMessage,
    block: &ReplyBlock,
    index: usize,
    context: &ReplyContext<'_>,
    arguments: &str,
) -> Value {
    let name = block.tool_name().unwrap_or_default();
    let mut call = json!({"index": message.sent_index(index), "type": "function",
        "function": {"name": name, "arguments": arguments}});
    if let Some(id) = message.call_id("call", context.id, index) {
        call["id"] = id.into();
    }
    call
}

fn finish_reason(message: &ReplyMessage) -> &'static str {
    match message.stop {
        ReplyStop::Refusal => "content_filter",
        ReplyStop::MaxTokens => "length",
        ReplyStop::Natural if message.stops_for_tools() => "tool_calls",
        ReplyStop::Natural => "stop",
    }
}

fn chunk(context: &ReplyContext<'_>, delta: &Value, finish_reason: Option<&str>) -> Vec<u8> {
    let choice = json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}]);
    event("", &body(context, &choice, Value::Null))
}

fn body(context: &ReplyContext<'_>, choices: &Value, usage: Value) -> Value {
    let mut body = json!({"id": format!("chatcmpl-test{:04}", context.id),
        "object": "chat.completion.chunk", "created": 1_767_225_600, "model": context.model,
        "choices": choices});
    if !usage.is_null() {
        body["usage"] = usage;
    }
    body
}

/// Builds the usage object. This dialect counts cached tokens as part of the input.
fn usage(usage: ReplyUsage) -> Value {
    let input = usage.inclusive_input();
    json!({"prompt_tokens": input, "completion_tokens": usage.output,
        "total_tokens": input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_model::reply::{Reply, ReplyBody};

    fn context(wants_usage: bool) -> ReplyContext<'static> {
        let usage = ReplyUsage::default();
        ReplyContext { model: "m", stream: true, wants_usage, usage, id: 3, request: b"" }
    }

    fn message(reply: Reply) -> ReplyMessage {
        let ReplyBody::Message(message) = reply.body else { panic!("a message") };
        message
    }

    fn two_calls() -> Reply {
        let read =
            |path: &str| ReplyBlock::Tool { name: "read".into(), input: json!({"path": path}) };
        Reply::message(vec![ReplyBlock::Text("both".into()), read("a"), read("b")])
    }

    /// Returns the chunks of a stream and whether it ended with `[DONE]`.
    fn chunks(reply: Reply, wants_usage: bool) -> (Vec<Value>, bool) {
        let frames = ChatDialect::frames(&message(reply), &context(wants_usage)).into_frames();
        let text = String::from_utf8(frames.concat()).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let chunks = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
        (chunks, text.ends_with("data: [DONE]\n\n"))
    }

    #[test]
    fn calls_are_counted_apart_from_text_and_their_pieces_add_up() {
        let (chunks, done) = chunks(two_calls(), true);
        assert!(done);
        let pieces: Vec<&Value> =
            chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]).collect();
        for (index, path) in ["a", "b"].into_iter().enumerate() {
            let own = pieces.iter().filter(|piece| piece["index"] == json!(index));
            let text: String =
                own.filter_map(|piece| piece["function"]["arguments"].as_str()).collect();
            assert_eq!(text, json!({"path": path}).to_string());
        }
        let finish: Vec<&Value> =
            chunks.iter().map(|chunk| &chunk["choices"][0]["finish_reason"]).collect();
        assert!(finish.contains(&&json!("tool_calls")));
        let last = chunks.last().unwrap();
        assert_eq!((&last["choices"], &last["usage"]["prompt_tokens"]), (&json!([]), &json!(3131)));
    }

    #[test]
    fn usage_is_sent_only_if_asked_for() {
        let (chunks, done) = chunks(Reply::text("hi"), false);
        assert!(done && chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    }

    #[test]
    fn quirks_are_those_of_real_servers() {
        let calls = |quirk| {
            let (chunks, _) = chunks(two_calls().with_quirk(quirk), false);
            let call = |chunk: &Value| chunk["choices"][0]["delta"]["tool_calls"][0].clone();
            let named = |call: &Value| call["function"]["name"].is_string();
            let calls: Vec<Value> = chunks.iter().map(call).filter(named).collect();
            (calls, chunks.last().unwrap()["choices"][0]["finish_reason"].clone())
        };
        let (shared, stop) = calls(WireQuirk::SharedIndex);
        assert_eq!((&shared[1]["index"], &stop), (&json!(0), &json!("tool_calls")));
        assert!(calls(WireQuirk::NoCallId).0.iter().all(|call| call.get("id").is_none()));
        let (repeated, _) = calls(WireQuirk::RepeatedCallId);
        assert_eq!(repeated[0]["id"], repeated[1]["id"]);
        let (objects, _) = calls(WireQuirk::ObjectArguments);
        assert_eq!(objects[0]["function"]["arguments"]["path"], "a");
        assert_eq!(calls(WireQuirk::StopWithCalls).1, "stop");
    }
}
