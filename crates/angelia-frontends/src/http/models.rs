//! `GET /v1/models`, in the format that the client expects according to its headers and query.

use std::collections::{HashMap, HashSet};

use angelia_core::model::Mode;
use axum::{
    Extension,
    extract::{Path, Query, State},
    http::{HeaderMap, Uri},
    response::Response,
};
use serde_json::{Value, json};

use super::{
    ApiState, Principal,
    anthropic::MessagesDialect,
    dialect::{error_response, granted_mode, json_response, unknown_model_error},
    openai::chat::ChatDialect,
    state::SharedState,
};

/// A placeholder: the formats require a release date, but we do not know it.
const CREATED: &str = "2026-01-01T00:00:00Z";
const CREATED_UNIX: i64 = 1_767_225_600;

/// The context window reported for every model. Only the agents know the real one.
const CONTEXT_WINDOW_TOKENS: u64 = 200_000;

pub(super) async fn list(
    State(state): SharedState,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let query = Query::<HashMap<String, String>>::try_from_uri(&uri);
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let ids = visible_models(&state, &principal);
    let list = if query.contains_key("client_version") {
        codex_list(&ids)
    } else if headers.contains_key("anthropic-version") {
        anthropic_list(&ids, &query)
    } else {
        let data: Vec<Value> = ids.iter().map(openai_model).collect();
        json!({"object": "list", "data": data})
    };
    json_response(list.to_string().into_bytes())
}

/// Describes one model. It need not be listed, as long as its id resolves.
pub(super) async fn show(
    State(state): SharedState,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    let known = granted_mode(&state, &principal, &id);
    let anthropic = headers.contains_key("anthropic-version");
    let Some(mode) = known else {
        let error = unknown_model_error(&id);
        return if anthropic {
            error_response::<MessagesDialect>(&error)
        } else {
            error_response::<ChatDialect>(&error)
        };
    };
    let listed = ListedModel { id, mode };
    let shape = if anthropic { anthropic_model(&listed) } else { openai_model(&listed) };
    json_response(shape.to_string().into_bytes())
}

struct ListedModel {
    id: String,
    mode: Mode,
}

/// Lists the models that this principal may use: by executor, then profiles, then aliases.
fn visible_models(state: &ApiState, principal: &Principal) -> Vec<ListedModel> {
    let settings = state.models.current();
    let mut ids = Vec::new();
    for family in &settings.families {
        ids.extend(family.models.iter().map(|model| format!("{}/{model}", family.executor)));
        let agent = family.agent_prefix();
        ids.extend(family.models.iter().map(|model| format!("{agent}/{model}")));
    }
    ids.extend(state.profiles.list().iter().map(|profile| profile.name.to_string()));
    ids.extend(settings.aliases.keys().map(ToString::to_string));
    let mut listed = HashSet::new();
    ids.into_iter()
        // An alias may have the name of a model or profile.
        .filter(|id| listed.insert(id.clone()))
        .filter_map(|id| {
            let mode = granted_mode(state, principal, &id)?;
            Some(ListedModel { id, mode })
        })
        .collect()
}

fn openai_model(model: &ListedModel) -> Value {
    json!({
        "id": model.id,
        "object": "model",
        "created": CREATED_UNIX,
        "owned_by": format!("angelia ({} mode)", model.mode.as_str()),
    })
}

fn anthropic_model(model: &ListedModel) -> Value {
    json!({
        "type": "model",
        "id": model.id,
        "display_name": display_name(model),
        "created_at": CREATED,
        "max_input_tokens": CONTEXT_WINDOW_TOKENS,
    })
}

fn anthropic_list(ids: &[ListedModel], query: &HashMap<String, String>) -> Value {
    let after = query.get("after_id");
    let start = after.and_then(|id| ids.iter().position(|one| one.id == *id));
    let rest = ids.get(start.map_or(0, |at| at + 1)..).unwrap_or_default();
    let limit = query.get("limit").and_then(|limit| limit.parse().ok());
    // With an empty page, a client would request the next one forever.
    let limit: usize = limit.unwrap_or(20).max(1);
    let page = rest.get(..limit.min(rest.len())).unwrap_or_default();
    json!({
        "data": page.iter().map(anthropic_model).collect::<Vec<_>>(),
        "has_more": page.len() < rest.len(),
        "first_id": page.first().map(|one| &one.id),
        "last_id": page.last().map(|one| &one.id),
    })
}

fn codex_list(ids: &[ListedModel]) -> Value {
    let models = ids.iter().map(|model| {
        json!({
            "slug": model.id,
            "display_name": display_name(model),
            "description": null,
            "supported_reasoning_levels": [],
            "shell_type": "shell_command",
            "visibility": "list",
            "supported_in_api": true,
            "priority": 0,
            "base_instructions": "",
            "supports_reasoning_summaries": false,
            "support_verbosity": false,
            "supports_parallel_tool_calls": true,
            "truncation_policy": {"mode": "bytes", "limit": 10_000},
            "context_window": CONTEXT_WINDOW_TOKENS,
            "experimental_supported_tools": [],
        })
    });
    json!({"models": models.collect::<Vec<_>>()})
}

fn display_name(model: &ListedModel) -> String {
    match model.mode {
        Mode::Agent => format!("{} (acts on this machine)", model.id),
        Mode::Model => model.id.clone(),
    }
}
