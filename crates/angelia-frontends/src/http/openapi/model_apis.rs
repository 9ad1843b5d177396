//! `/v1`: the parts of the model APIs that are read and written here. Unknown fields in requests
//! are accepted.

use serde_json::{Value, json};

use super::{
    super::{
        anthropic::wire as messages,
        openai::{ErrorShape, chat::wire as chat, responses::wire as responses},
    },
    paths::{Operation, Paths, SuccessBody},
};

/// Statuses of a turn that fails before it produces output, and of a refused request.
const TURN_FAILURE_STATUSES: [u16; 9] = [400, 404, 409, 422, 424, 429, 502, 503, 504];

pub(super) fn add(paths: &mut Paths) {
    anthropic(paths);
    openai(paths);
    models(paths);
}

/// Returns an operation that is answered by a model, with the headers that it accepts.
fn model_operation(path: &'static str, about: &'static str) -> Operation {
    Operation::post(path, about)
        .header("idempotency-key", "A repeat with the same key gets the same turn.")
        .header(
            "x-angelia-session",
            "If the request repeats no answers, it is the next turn of this session.",
        )
        .fails(&TURN_FAILURE_STATUSES)
}

fn anthropic(paths: &mut Paths) {
    let request = paths.request_schema::<messages::MessagesRequest<'_>>();
    let error = paths.response_schema::<messages::MessagesErrorBody>();
    let answer =
        SuccessBody::JsonOrEvents(paths.response_schema::<messages::MessagesResponse<'_>>());
    let ask = model_operation("/v1/messages", "Anthropic Messages.").body(request.clone());
    paths.add(ask.answers(200, answer).error(error.clone()));
    let counted = SuccessBody::Json(paths.response_schema::<messages::TokenCount>());
    let count = Operation::post("/v1/messages/count_tokens", "Estimates the tokens of a request.")
        .body(request);
    paths.add(count.answers(200, counted).error(error));
}

fn openai(paths: &mut Paths) {
    let error = paths.response_schema::<ErrorShape<'_>>();
    let request = paths.request_schema::<chat::ChatRequest<'_>>();
    let answer = SuccessBody::JsonOrEvents(paths.response_schema::<chat::ChatCompletion<'_>>());
    let ask = model_operation("/v1/chat/completions", "OpenAI Chat Completions.").body(request);
    paths.add(ask.answers(200, answer).error(error.clone()));
    let request = paths.request_schema::<responses::ResponsesRequest<'_>>();
    let response = paths.response_schema::<responses::ResponseObject<'_>>();
    let answer = SuccessBody::JsonOrEvents(response.clone());
    let ask = model_operation("/v1/responses", "OpenAI Responses.").body(request);
    paths.add(ask.answers(200, answer).error(error.clone()));
    let response_body = || SuccessBody::Json(response.clone());
    let show = Operation::get("/v1/responses/{id}", "Returns an earlier answer.");
    paths.add(show.answers(200, response_body()).error(error.clone()));
    let about = "Cancels an answer.";
    let cancel = Operation::post("/v1/responses/{id}/cancel", about);
    paths.add(cancel.answers(200, response_body()).fails(&[409]).error(error));
}

/// Adds the model list. Its format depends on the client: Anthropic's with `anthropic-version`,
/// Codex's with `client_version`, otherwise OpenAI's.
fn models(paths: &mut Paths) {
    let list = |field: &str| {
        json!({
            "type": "object",
            "properties": {field: {"type": "array", "items": {"type": "object"}}},
            "required": [field],
        })
    };
    let lists = json!({"anyOf": [list("data"), list("models")]});
    let model = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}},
        "required": ["id"],
    });
    let error = json!({"anyOf": [paths.response_schema::<messages::MessagesErrorBody>(), paths.response_schema::<ErrorShape<'_>>()]});
    let version =
        |operation: Operation| operation.header("anthropic-version", "Selects Anthropic's format.");
    let all = version(Operation::get("/v1/models", "Lists the models."));
    let all = all
        .query(&model_list_query(), &["client_version", "after_id", "limit"])
        .answers(200, SuccessBody::Json(lists));
    paths.add(all.error(error.clone()));
    let one =
        version(Operation::get("/v1/models/{id}", "Returns a model; ids may contain slashes."));
    paths.add(one.answers(200, SuccessBody::Json(model)).error(error));
}

fn model_list_query() -> Value {
    json!({"properties": {
        "client_version": {"type": "string", "description": "Sent by Codex; selects its format."},
        "after_id": {"type": "string", "description": "Anthropic only: the page after this id."},
        "limit": {"type": "integer", "minimum": 1, "description": "Anthropic only: the page size."},
    }})
}
