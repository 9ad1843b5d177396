//! Chooses the answer to a request and the dialect that encodes it.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};

use super::{
    DEFAULT_TEXT,
    acp_gemini::{self, GeminiDialect},
    chat::ChatDialect,
    dialect::{self, Dialect},
    directive::Directives,
    encoded_response::EncodedResponse,
    messages::MessagesDialect,
    prompt::{ParsedPrompt, RequestHead},
    reply::{Reply, ReplyUsage},
    request_log::RecordedRequest,
    responses::ResponsesDialect,
};

type ReplyFn = Box<dyn Fn(&RecordedRequest) -> Option<Reply> + Send + Sync>;

/// The script, and the counter behind the deterministic ids.
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
    /// How many scripted failures each prompt has already received.
    failed: HashMap<String, usize>,
}

/// What a dialect's encoder needs besides the reply.
pub(super) struct ReplyContext<'a> {
    pub(super) model: &'a str,
    pub(super) stream: bool,
    /// Whether the client asks for the token counts of a stream, which one dialect requires.
    pub(super) wants_usage: bool,
    pub(super) usage: ReplyUsage,
    /// Unique per answer; the ids of messages and tool calls derive from it.
    pub(super) id: u64,
    /// The body of the request.
    pub(super) request: &'a [u8],
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
                self.respond_as_model::<MessagesDialect>(request)
            }
            "POST" if path.ends_with("/chat/completions") => {
                self.respond_as_model::<ChatDialect>(request)
            }
            "POST" if path.ends_with("/responses") => {
                self.respond_as_model::<ResponsesDialect>(request)
            }
            "POST" if path.ends_with("enerateContent") => {
                self.respond_as_model::<GeminiDialect>(request)
            }
            "POST" if path.ends_with(":countTokens") => {
                EncodedResponse::json(200, &json!({"totalTokens": request.body.len() / 4}))
            }
            "POST" if path.ends_with("/count_tokens") => {
                EncodedResponse::json(200, &json!({"input_tokens": request.body.len() / 4}))
            }
            "GET" if path.ends_with("/models") => EncodedResponse::json(200, &models()),
            "GET" if path.contains("/models/") => {
                let id = path.rsplit("/models/").next().unwrap_or_default();
                EncodedResponse::json(200, &model(id))
            }
            "HEAD" | "GET" if path == "/" => EncodedResponse::json(200, &json!({})),
            _ => EncodedResponse::json(404, &MessagesDialect::error(404, Some("no such path"))),
        }
    }

    fn respond_as_model<D: Dialect>(&self, request: &RecordedRequest) -> EncodedResponse {
        let mut head = RequestHead::of(&request.body);
        acp_gemini::complete(&mut head, request);
        let (reply, usage) = self.choose_reply(request);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let RequestHead { model, stream, wants_usage } = &head;
        let context = ReplyContext {
            model,
            stream: *stream,
            wants_usage: *wants_usage,
            usage: reply.usage.unwrap_or(usage),
            id,
            request: &request.body,
        };
        let mut response = dialect::encode::<D>(&reply.body, &context);
        response.wait = reply.wait;
        response.headers = reply.headers;
        // The dialects name this header differently; each client ignores the other name.
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

/// Returns a model list that the clients of all dialects can read.
fn models() -> Value {
    let ids = ["claude-opus-5-5", "claude-sonnet-5", "gpt-5.5"];
    let data: Vec<Value> = ids.iter().map(|id| model(id)).collect();
    json!({"object": "list", "data": data, "has_more": false, "first_id": ids[0],
        "last_id": ids[ids.len() - 1], "models": []})
}

fn model(id: &str) -> Value {
    json!({"id": id, "type": "model", "object": "model", "display_name": id,
        "created_at": "2026-01-01T00:00:00Z", "created": 1_767_225_600, "owned_by": "test",
        "max_input_tokens": 200_000, "max_tokens": 64_000})
}
