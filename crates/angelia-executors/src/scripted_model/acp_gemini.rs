//! The part of the Gemini dialect that Gemini CLI needs. The path names the model and the method;
//! an answer is one candidate or a stream of them.

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, FramedBlock, FramedMessage},
    fault::ApiError,
    prompt::{ParsedPrompt, RequestHead},
    reply::{ReplyBlock, ReplyMessage, ReplyStop},
    request_log::RecordedRequest,
    responder::ReplyContext,
};

pub(super) struct GeminiDialect;

impl Dialect for GeminiDialect {
    fn frames(message: &ReplyMessage, context: &ReplyContext<'_>) -> FramedMessage {
        let blocks = message.blocks.iter().map(|block| {
            let parts: Vec<Value> = match block {
                ReplyBlock::Text(_) | ReplyBlock::Words(_) => {
                    block.chunks().into_iter().map(|piece| json!({"text": piece})).collect()
                }
                _ => vec![whole(block)],
            };
            let deltas = parts.iter().map(|part| frame(&candidate(&[part], None, context)));
            FramedBlock { deltas: deltas.collect(), ..FramedBlock::default() }
        });
        FramedMessage {
            head: Vec::new(),
            blocks: blocks.collect(),
            end: frame(&candidate(&[], Some(message), context)),
        }
    }

    fn document(message: &ReplyMessage, context: &ReplyContext<'_>) -> Value {
        let parts: Vec<Value> = message.blocks.iter().map(whole).collect();
        let parts: Vec<&Value> = parts.iter().collect();
        candidate(&parts, Some(message), context)
    }

    fn error(status: u16, message: Option<&str>) -> Value {
        let text = message.unwrap_or("the scripted model fails");
        let word = if status == 401 { "UNAUTHENTICATED" } else { "INTERNAL" };
        json!({"error": {"code": status, "message": text, "status": word}})
    }

    fn api_error(error: ApiError) -> (u16, Value) {
        let (status, words) = match error {
            ApiError::InsufficientQuota => (429, "You exceeded your current quota.".to_owned()),
            ApiError::Overflow { window } => {
                (400, format!("The input token count exceeds the maximum allowed ({window})."))
            }
            ApiError::ReasoningRejected => (400, "The thought signature is not valid.".to_owned()),
            ApiError::ImageRefused => (400, "This model does not support image input.".to_owned()),
            ApiError::ImageTooLarge => (400, "The image is too large.".to_owned()),
            ApiError::OutputCap { limit } => {
                (400, format!("max_output_tokens must be less than {limit}."))
            }
        };
        (status, Self::error(status, Some(&words)))
    }

    const OVERLOADED: u16 = 503;

    fn error_frame(status: u16, _context: &ReplyContext<'_>) -> Vec<u8> {
        frame(&Self::error(status, None))
    }

    fn unreadable_event() -> &'static str {
        ""
    }

    fn keep_alive() -> Vec<u8> {
        b": keep-alive\r\n\r\n".to_vec()
    }
}

/// Takes the model and the streaming flag from a Gemini path. Leaves other requests unchanged.
pub(super) fn complete(head: &mut RequestHead, request: &RecordedRequest) {
    if let Some((model, what)) = request.path.rsplit('/').next().and_then(|end| end.split_once(':'))
    {
        model.clone_into(&mut head.model);
        head.stream = what == "streamGenerateContent";
    }
}

/// Returns the user's last prompt and the number of rounds of tool results since then.
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

fn whole(block: &ReplyBlock) -> Value {
    match block {
        ReplyBlock::Thinking(text) => json!({"text": text, "thought": true}),
        ReplyBlock::Text(_) | ReplyBlock::Words(_) => json!({"text": block.full_text()}),
        ReplyBlock::Tool { name, input } => json!({"functionCall": {"name": name, "args": input}}),
        ReplyBlock::RawTool { name, arguments } => {
            let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
            json!({"functionCall": {"name": name, "args": input}})
        }
    }
}

/// Builds one response. `message` is set for the last response, which carries the finish reason.
fn candidate(
    parts: &[&Value],
    message: Option<&ReplyMessage>,
    context: &ReplyContext<'_>,
) -> Value {
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
