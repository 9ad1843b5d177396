//! Chooses the answer to a request and the dialect that encodes it.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    DEFAULT_TEXT, acp_gemini,
    directive::Directives,
    http_wire::{EncodedResponse, ResponseBody},
    messages,
    prompt::{ParsedPrompt, RequestHead},
    reply::{Reply, ReplyBody, ReplyUsage},
    request_log::RecordedRequest,
    responses,
};

type ReplyFn = Box<dyn Fn(&RecordedRequest) -> Option<Reply> + Send + Sync>;

/// The script and the counters behind deterministic ids.
#[derive(Default)]
pub(super) struct Responder {
    state: Mutex<ResponderState>,
    next_id: AtomicU64,
}

#[derive(Default)]
struct ResponderState {
    script: VecDeque<Reply>,
    reply_fn: Option<ReplyFn>,
    usage: ReplyUsage,
    /// Counts the scripted failures that each prompt has already got.
    failed: HashMap<String, usize>,
}

/// The data a dialect's encoder needs besides the reply.
pub(super) struct ReplyContext<'a> {
    pub(super) model: &'a str,
    pub(super) stream: bool,
    pub(super) usage: ReplyUsage,
    /// Unique per answer; ids of messages and tool calls are made from it.
    pub(super) id: u64,
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("next_id", &self.next_id).finish_non_exhaustive()
    }
}

impl Responder {
    pub(super) fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state().script.extend(replies);
    }

    pub(super) fn respond_with(&self, answer: ReplyFn) {
        self.state().reply_fn = Some(answer);
    }

    pub(super) fn set_usage(&self, usage: ReplyUsage) {
        self.state().usage = usage;
    }

    pub(super) fn unused_replies(&self) -> usize {
        self.state().script.len()
    }

    pub(super) fn respond(&self, request: &RecordedRequest) -> EncodedResponse {
        let path = request.path.as_str();
        match request.method.as_str() {
            "POST" if path.ends_with("/messages") => {
                self.respond_as_model(request, messages::encode)
            }
            "POST" if path.ends_with("/responses") => {
                self.respond_as_model(request, responses::encode)
            }
            "POST" if path.ends_with("enerateContent") => {
                self.respond_as_model(request, acp_gemini::encode)
            }
            "POST" if path.ends_with(":countTokens") => {
                json_response(200, &json!({"totalTokens": request.body.len() / 4}))
            }
            "POST" if path.ends_with("/count_tokens") => {
                json_response(200, &json!({"input_tokens": request.body.len() / 4}))
            }
            "GET" if path.ends_with("/models") => json_response(200, &models()),
            "HEAD" | "GET" if path == "/" => json_response(200, &json!({})),
            _ => json_response(404, &messages::error(404, Some("no such path"))),
        }
    }

    fn respond_as_model(
        &self,
        request: &RecordedRequest,
        encode: fn(&ReplyBody, &ReplyContext<'_>) -> EncodedResponse,
    ) -> EncodedResponse {
        let mut head = RequestHead::of(&request.body);
        acp_gemini::complete(&mut head, request);
        let (reply, usage) = self.choose_reply(request);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let context = ReplyContext { model: &head.model, stream: head.stream, usage, id };
        let mut response = encode(&reply.body, &context);
        response.wait = reply.wait;
        response.headers = reply.headers;
        // The two dialects name this header differently; each client ignores the other name.
        response.headers.push(("request-id".into(), format!("req_test{id:04}")));
        response.headers.push(("x-request-id".into(), format!("req_test{id:04}")));
        response
    }

    fn choose_reply(&self, request: &RecordedRequest) -> (Reply, ReplyUsage) {
        let mut state = self.state();
        let usage = state.usage;
        if let Some(reply) = state.script.pop_front() {
            return (reply, usage);
        }
        if let Some(reply) = state.reply_fn.as_ref().and_then(|answer| answer(request)) {
            return (reply, usage);
        }
        let prompt = ParsedPrompt::from_request(request);
        let Some(mut directives) = Directives::parse(&prompt.text) else {
            return (Reply::text(DEFAULT_TEXT), usage);
        };
        directives.choose_tools(|| request.offered_tools());
        let failed = state.failed.get(&prompt.text).copied().unwrap_or_default();
        if directives.is_scripted_failure(prompt.rounds, failed) {
            state.failed.insert(prompt.text, failed + 1);
        }
        (directives.reply(prompt.rounds, prompt.tool_failed, failed), usage)
    }

    fn state(&self) -> MutexGuard<'_, ResponderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn json_response(status: u16, body: &Value) -> EncodedResponse {
    EncodedResponse {
        status,
        headers: Vec::new(),
        content_type: "application/json",
        wait: Duration::ZERO,
        body: ResponseBody::Whole(body.to_string().into_bytes()),
    }
}

/// Returns one model list that the clients of both dialects can read.
fn models() -> Value {
    let ids = ["claude-opus-5-5", "claude-sonnet-5", "gpt-5.5"];
    let data: Vec<Value> = ids
        .iter()
        .map(|id| {
            json!({"id": id, "type": "model", "object": "model", "display_name": id,
                "created_at": "2026-01-01T00:00:00Z", "created": 1_767_225_600, "owned_by": "test"})
        })
        .collect();
    json!({"object": "list", "data": data, "has_more": false, "first_id": ids[0],
        "last_id": ids[ids.len() - 1], "models": []})
}
