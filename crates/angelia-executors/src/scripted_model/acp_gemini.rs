//! The part of the Gemini dialect that Gemini CLI needs. The path names the model and the method;
//! an answer is one candidate or a stream of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    http_wire::{EncodedResponse, ResponseBody, StreamEnd},
    prompt::{ParsedPrompt, RequestHead},
    reply::{Fault, ReplyBlock, ReplyBody, ReplyMessage, ReplyStop},
    request_log::RecordedRequest,
    responder::{ReplyContext, json_response},
};

/// Fills in the model and whether to stream from a Gemini path; leaves other requests unchanged.
pub(super) fn complete(head: &mut RequestHead, request: &RecordedRequest) {
    if let Some((model, what)) = request.path.rsplit('/').next().and_then(|end| end.split_once(':'))
    {
        model.clone_into(&mut head.model);
        head.stream = what == "streamGenerateContent";
    }
}

/// Reads the user's last prompt and the number of rounds of tool results since then.
pub(super) fn prompt(body: &[u8]) -> ParsedPrompt {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let contents = request["contents"].as_array().cloned().unwrap_or_default();
    let mut prompt = ParsedPrompt::default();
    for content in contents.iter().rev() {
        let parts = content["parts"].as_array().cloned().unwrap_or_default();
        if content["role"] == "model" {
            continue;
        }
        let answer = parts.iter().find(|part| part.get("functionResponse").is_some());
        if let Some(answer) = answer {
            if prompt.rounds == 0 {
                let response = &answer["functionResponse"]["response"];
                prompt.tool_failed = response.get("error").is_some();
            }
            prompt.rounds += 1;
            continue;
        }
        let words = parts.iter().filter_map(|part| part["text"].as_str());
        prompt.text = words.collect::<Vec<_>>().join("\n");
        break;
    }
    prompt
}

pub(super) fn encode(body: &ReplyBody, context: &ReplyContext<'_>) -> EncodedResponse {
    match body {
        ReplyBody::Message(message) if context.stream => {
            stream(frames(message, context), message.pause, StreamEnd::Complete)
        }
        ReplyBody::Message(message) => {
            let parts: Vec<Value> = message.blocks.iter().map(whole).collect();
            json_response(200, &candidate(&parts, Some(message), context))
        }
        ReplyBody::Status { code, message } => {
            let text = message.as_deref().unwrap_or("the scripted model fails");
            let status = if *code == 401 { "UNAUTHENTICATED" } else { "INTERNAL" };
            let error = json!({"error": {"code": code, "message": text, "status": status}});
            json_response(*code, &error)
        }
        ReplyBody::Fault(Fault::HangHeaders) => {
            EncodedResponse { body: ResponseBody::Never, ..json_response(200, &Value::Null) }
        }
        ReplyBody::Fault(Fault::HangBody) => {
            let first = candidate(&[json!({"text": "partial "})], None, context);
            stream(vec![frame(&first)], Duration::ZERO, StreamEnd::Hang)
        }
        ReplyBody::Fault(_) => stream(Vec::new(), Duration::ZERO, StreamEnd::Reset),
    }
}

fn frames(message: &ReplyMessage, context: &ReplyContext<'_>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for block in &message.blocks {
        match block {
            ReplyBlock::Text(_) | ReplyBlock::Words(_) => {
                let pieces = block.chunks().into_iter();
                let pieces =
                    pieces.map(|piece| candidate(&[json!({"text": piece})], None, context));
                frames.extend(pieces.map(|piece| frame(&piece)));
            }
            _ => frames.push(frame(&candidate(&[whole(block)], None, context))),
        }
    }
    frames.push(frame(&candidate(&[], Some(message), context)));
    frames
}

fn whole(block: &ReplyBlock) -> Value {
    match block {
        ReplyBlock::Thinking(text) => json!({"text": text, "thought": true}),
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => json!({"text": block.full_text()}),
        ReplyBlock::Tool { name, input } => json!({"functionCall": {"name": name, "args": input}}),
    }
}

/// Builds one response; `message` is given for the last one, which carries the finish reason.
fn candidate(parts: &[Value], message: Option<&ReplyMessage>, context: &ReplyContext<'_>) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let Some(message) = message {
        candidate["finishReason"] = match message.stop {
            ReplyStop::Natural => "STOP",
            ReplyStop::MaxTokens => "MAX_TOKENS",
            ReplyStop::Refusal => "SAFETY",
        }
        .into();
    }
    let (input, output) = (context.usage.input, context.usage.output);
    json!({"candidates": [candidate], "modelVersion": context.model, "responseId": context.id.to_string(),
        "usageMetadata": {"promptTokenCount": input, "candidatesTokenCount": output,
            "totalTokenCount": input + output}})
}

fn frame(value: &Value) -> Vec<u8> {
    format!("data: {value}\r\n\r\n").into_bytes()
}

fn stream(frames: Vec<Vec<u8>>, pause: Duration, end: StreamEnd) -> EncodedResponse {
    EncodedResponse {
        content_type: "text/event-stream",
        body: ResponseBody::Stream { frames, pause, end },
        ..json_response(200, &Value::Null)
    }
}
