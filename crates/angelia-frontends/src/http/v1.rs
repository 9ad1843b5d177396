//! `/v1`: the paths of the model APIs. Each runs its dialect's decoder and then the shared code.

use std::{collections::HashMap, sync::Arc};

use angelia_core::model::{TurnId, TurnState};
use axum::{
    Extension, Router,
    extract::{Path, Request, State},
    http::header,
    response::{IntoResponse, Response},
    routing::{get, post},
};

use super::{
    ApiState, Principal, anthropic, body,
    dialect::{self, DialectError, ErrorKind, RecordedAnswer, error_response},
    models,
    openai::{chat, responses},
};

type SharedState = State<Arc<ApiState>>;
type PrincipalExtension = Extension<Principal>;

pub(super) fn routes() -> Router<Arc<ApiState>> {
    Router::new()
        .route("/messages", post(messages))
        .route("/messages/count_tokens", post(count_tokens))
        .route("/chat/completions", post(chat_completions))
        .route("/responses", post(create_response))
        .route("/responses/{id}", get(show_response))
        .route("/responses/{id}/cancel", post(cancel_response))
        .route("/models", get(models::list))
        .route("/models/{*id}", get(models::show))
}

async fn messages(
    State(state): SharedState,
    Extension(who): PrincipalExtension,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = match body::read_body(&parts.headers, body).await {
        Ok(bytes) => bytes,
        Err(error) => return error_response::<anthropic::MessagesDialect>(&error.into()),
    };
    match anthropic::decode(&bytes) {
        Ok((ask, dialect)) => dialect::serve(&state, &who, &parts.headers, ask, dialect).await,
        Err(not_read) => {
            let (status, json) = not_read.to_response();
            (status, json_response(json)).into_response()
        }
    }
}

/// Estimates the tokens of a request without running a model.
async fn count_tokens(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let read = body::read_body(&parts.headers, body).await;
    let counted = read.map_err(DialectError::from).and_then(|bytes| {
        let counted = anthropic::count_tokens(&bytes);
        counted.map_err(DialectError::from)
    });
    match counted {
        Ok(json) => json_response(json),
        Err(error) => error_response::<anthropic::MessagesDialect>(&error),
    }
}

async fn chat_completions(
    State(state): SharedState,
    Extension(who): PrincipalExtension,
    request: Request,
) -> Response {
    dialect::decode_and_serve(&state, &who, request, chat::decode).await
}

async fn create_response(
    State(state): SharedState,
    Extension(who): PrincipalExtension,
    request: Request,
) -> Response {
    match decode_response_request(&state, &who, request).await {
        Ok((headers, ask, dialect)) => dialect::serve(&state, &who, &headers, ask, dialect).await,
        Err(error) => error_response::<responses::ResponsesDialect>(&error),
    }
}

/// Decodes a request, with the items of earlier answers that it only refers to.
async fn decode_response_request(
    state: &Arc<ApiState>,
    who: &Principal,
    request: Request,
) -> Result<(header::HeaderMap, dialect::ModelRequest, responses::ResponsesDialect), DialectError> {
    let (parts, body) = request.into_parts();
    let bytes = body::read_body(&parts.headers, body).await?;
    let mut known = HashMap::new();
    for id in responses::references(&bytes)? {
        let response = id.response;
        let told = dialect::recorded(state, who, response.turn, response.part).await;
        if let Ok(RecordedAnswer::Complete(whole)) = told {
            let index = usize::try_from(id.index).unwrap_or(usize::MAX);
            let block = whole.blocks.get(index).cloned();
            known.extend(block.map(|block| (item_key(id), block)));
        }
    }
    let (ask, dialect) = responses::decode(&bytes, |id| known.get(&item_key(id)).cloned())?;
    Ok((parts.headers, ask, dialect))
}

async fn show_response(
    State(state): SharedState,
    Extension(who): PrincipalExtension,
    Path(id): Path<String>,
) -> Response {
    match load_response(&state, &who, &id).await {
        Ok(RecordedAnswer::Complete(whole)) => json_response(responses::encode_recorded(&whole)),
        Ok(RecordedAnswer::Unfinished(begin, turn)) => {
            json_response(responses::encode_unfinished(&begin, response_status(&turn.state)))
        }
        Err(error) => error_response::<responses::ResponsesDialect>(&error),
    }
}

async fn cancel_response(
    State(state): SharedState,
    Extension(who): PrincipalExtension,
    Path(id): Path<String>,
) -> Response {
    let cancelled = async {
        if let RecordedAnswer::Unfinished(begin, _) = load_response(&state, &who, &id).await? {
            state.engine.interrupt(begin.turn, false).await?;
        }
        load_response(&state, &who, &id).await
    };
    match cancelled.await {
        Ok(RecordedAnswer::Complete(whole)) => json_response(responses::encode_recorded(&whole)),
        Ok(RecordedAnswer::Unfinished(begin, _)) => {
            json_response(responses::encode_unfinished(&begin, "cancelled"))
        }
        Err(error) => error_response::<responses::ResponsesDialect>(&error),
    }
}

async fn load_response(
    state: &ApiState,
    who: &Principal,
    id: &str,
) -> Result<RecordedAnswer, DialectError> {
    let id: responses::ResponseId = id
        .parse()
        .map_err(|_| DialectError::new(ErrorKind::NotFound, "there is no such response"))?;
    dialect::recorded(state, who, id.turn, id.part).await
}

/// Returns the status of a turn as Responses spells it.
const fn response_status(state: &TurnState) -> &'static str {
    match state {
        TurnState::Queued => "queued",
        TurnState::Finished { .. } => "cancelled",
        _ => "in_progress",
    }
}

pub(super) fn json_response(json: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Identifies an item by its answer and its index there.
fn item_key(id: responses::ItemId) -> (TurnId, u32, u32) {
    (id.response.turn, id.response.part, id.index)
}
