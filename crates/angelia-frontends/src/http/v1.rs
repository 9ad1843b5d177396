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
    ApiState, Who, anthropic, body,
    dialect::{self, DialectError, ErrorKind, Told, refuse},
    models,
    openai::{chat, responses},
};

type Shared = State<Arc<ApiState>>;
type Caller = Extension<Who>;

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

async fn messages(State(state): Shared, Extension(who): Caller, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = match body::read_whole(&parts.headers, body).await {
        Ok(bytes) => bytes,
        Err(error) => return refuse::<anthropic::Messages>(&error.into()),
    };
    match anthropic::decode(&bytes) {
        Ok((ask, dialect)) => dialect::serve(&state, &who, &parts.headers, ask, dialect).await,
        Err(not_read) => {
            let (status, json) = not_read.body();
            (status, object(json)).into_response()
        }
    }
}

/// Estimates the tokens of a request without running a model.
async fn count_tokens(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let read = body::read_whole(&parts.headers, body).await;
    let counted = read.map_err(DialectError::from).and_then(|bytes| {
        let counted = anthropic::count_tokens(&bytes);
        counted.map_err(DialectError::from)
    });
    match counted {
        Ok(json) => object(json),
        Err(error) => refuse::<anthropic::Messages>(&error),
    }
}

async fn chat_completions(
    State(state): Shared,
    Extension(who): Caller,
    request: Request,
) -> Response {
    dialect::answer(&state, &who, request, chat::decode).await
}

async fn create_response(
    State(state): Shared,
    Extension(who): Caller,
    request: Request,
) -> Response {
    match read_response(&state, &who, request).await {
        Ok((headers, ask, dialect)) => dialect::serve(&state, &who, &headers, ask, dialect).await,
        Err(error) => refuse::<responses::Responses>(&error),
    }
}

/// Decodes a request, with the items of earlier answers that it only refers to.
async fn read_response(
    state: &Arc<ApiState>,
    who: &Who,
    request: Request,
) -> Result<(header::HeaderMap, dialect::Ask, responses::Responses), DialectError> {
    let (parts, body) = request.into_parts();
    let bytes = body::read_whole(&parts.headers, body).await?;
    let mut known = HashMap::new();
    for id in responses::references(&bytes)? {
        let response = id.response;
        let told = dialect::recorded(state, who, response.turn, response.part).await;
        if let Ok(Told::Whole(whole)) = told {
            let index = usize::try_from(id.index).unwrap_or(usize::MAX);
            let block = whole.blocks.get(index).cloned();
            known.extend(block.map(|block| (key(id), block)));
        }
    }
    let (ask, dialect) = responses::decode(&bytes, |id| known.get(&key(id)).cloned())?;
    Ok((parts.headers, ask, dialect))
}

async fn show_response(
    State(state): Shared,
    Extension(who): Caller,
    Path(id): Path<String>,
) -> Response {
    match told(&state, &who, &id).await {
        Ok(Told::Whole(whole)) => object(responses::recorded(&whole)),
        Ok(Told::Unfinished(begin, turn)) => {
            object(responses::unfinished(&begin, status(&turn.state)))
        }
        Err(error) => refuse::<responses::Responses>(&error),
    }
}

async fn cancel_response(
    State(state): Shared,
    Extension(who): Caller,
    Path(id): Path<String>,
) -> Response {
    let cancelled = async {
        if let Told::Unfinished(begin, _) = told(&state, &who, &id).await? {
            state.engine.interrupt(begin.turn, false).await?;
        }
        told(&state, &who, &id).await
    };
    match cancelled.await {
        Ok(Told::Whole(whole)) => object(responses::recorded(&whole)),
        Ok(Told::Unfinished(begin, _)) => object(responses::unfinished(&begin, "cancelled")),
        Err(error) => refuse::<responses::Responses>(&error),
    }
}

async fn told(state: &ApiState, who: &Who, id: &str) -> Result<Told, DialectError> {
    let id: responses::ResponseId = id
        .parse()
        .map_err(|_| DialectError::new(ErrorKind::NotFound, "there is no such response"))?;
    dialect::recorded(state, who, id.turn, id.part).await
}

/// Returns the status of a turn as Responses spells it.
const fn status(state: &TurnState) -> &'static str {
    match state {
        TurnState::Queued => "queued",
        TurnState::Finished { .. } => "cancelled",
        _ => "in_progress",
    }
}

pub(super) fn object(json: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Identifies an item by its answer and its index there.
fn key(id: responses::ItemId) -> (TurnId, u32, u32) {
    (id.response.turn, id.response.part, id.index)
}
