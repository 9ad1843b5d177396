//! `/v1`: the paths of the model APIs. Each runs its dialect's decoder and then the shared code.

use std::{collections::HashMap, sync::Arc};

use angelia_core::model::TurnState;
use axum::{
    Extension, Router,
    body::Bytes,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
    routing::{get, post},
};

use super::{
    ApiState, ErrorKind, HttpError, Principal,
    anthropic::{self, MessagesDialect},
    body::BodyBytes,
    caller_limits::BodyReservation,
    dialect::{
        self, ModelRequest, RecordedAnswer, error_response, json_response, load_recorded_answer,
    },
    models,
    openai::{
        chat,
        responses::{self, ResponsesDialect},
    },
    state::SharedState,
};

/// A body, or the reason why it could not be read. Each dialect reports that in its own format.
type RequestBody = Result<BodyBytes, HttpError>;

/// Decodes a body. Also returns its reservation, which must last as long as the request.
async fn decode<T: Send + 'static>(
    body: RequestBody,
    decode: impl FnOnce(&Bytes) -> Result<T, HttpError> + Send + 'static,
) -> (Result<T, HttpError>, Option<BodyReservation>) {
    match body {
        Ok(body) => (body.decode(decode).await, body.reservation),
        Err(error) => (Err(error), None),
    }
}

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
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: RequestBody,
) -> Response {
    let (decoded, reservation) = decode(body, |bytes| anthropic::decode(bytes)).await;
    dialect::serve(state, principal, &headers, decoded, reservation).await
}

/// Estimates the tokens of a request without running a model.
async fn count_tokens(body: RequestBody) -> Response {
    match decode(body, |bytes| Ok(anthropic::count_tokens(bytes)?)).await.0 {
        Ok(json) => json_response(json),
        Err(error) => error_response::<MessagesDialect>(&error),
    }
}

async fn chat_completions(
    State(state): SharedState,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: RequestBody,
) -> Response {
    let (decoded, reservation) = decode(body, |bytes| Ok(chat::decode(bytes)?)).await;
    dialect::serve(state, principal, &headers, decoded, reservation).await
}

async fn create_response(
    State(state): SharedState,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: RequestBody,
) -> Response {
    let (decoded, reservation) = match body {
        Ok(body) => (decode_response_request(&state, &principal, &body).await, body.reservation),
        Err(error) => (Err(error), None),
    };
    dialect::serve(state, principal, &headers, decoded, reservation).await
}

/// Decodes a request, including the items of earlier answers that it only refers to.
async fn decode_response_request(
    state: &ApiState,
    principal: &Principal,
    body: &BodyBytes,
) -> Result<(ModelRequest, ResponsesDialect), HttpError> {
    let mut known = HashMap::new();
    for id in body.decode(|bytes| Ok(responses::references(bytes)?)).await? {
        let (turn, part) = (id.response.turn, id.response.part);
        let recorded = load_recorded_answer(state, principal, turn, part).await;
        if let Ok(RecordedAnswer::Complete(answer)) = recorded {
            let index = usize::try_from(id.index).unwrap_or(usize::MAX);
            known.extend(answer.blocks.get(index).map(|block| (id, block.clone())));
        }
    }
    body.decode(move |bytes| Ok(responses::decode(bytes, |id| known.get(&id).cloned())?)).await
}

async fn show_response(
    State(state): SharedState,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    let recorded = load_response(&state, &principal, &id).await;
    response_object(recorded, |state| match state {
        TurnState::Queued | TurnState::HandedOver => "queued",
        TurnState::Finished { .. } => "cancelled",
        _ => "in_progress",
    })
}

async fn cancel_response(
    State(state): SharedState,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    let cancelled = async {
        let recorded = load_response(&state, &principal, &id).await?;
        if let RecordedAnswer::Unfinished(header, _) = recorded {
            state.engine.interrupt(header.turn, false).await?;
        }
        load_response(&state, &principal, &id).await
    };
    response_object(cancelled.await, |_| "cancelled")
}

async fn load_response(
    state: &ApiState,
    principal: &Principal,
    id: &str,
) -> Result<RecordedAnswer, HttpError> {
    let id: responses::ResponseId =
        id.parse().map_err(|_| HttpError::new(ErrorKind::NotFound, "there is no such response"))?;
    load_recorded_answer(state, principal, id.turn, id.part).await
}

/// Returns a recorded answer as a response object. `status` names the state of a turn without a
/// complete answer.
fn response_object(
    recorded: Result<RecordedAnswer, HttpError>,
    status: impl FnOnce(&TurnState) -> &'static str,
) -> Response {
    match recorded {
        Ok(RecordedAnswer::Complete(answer)) => json_response(responses::encode_recorded(&answer)),
        Ok(RecordedAnswer::Unfinished(header, turn)) => {
            json_response(responses::encode_unfinished(&header, status(&turn.state)))
        }
        Err(error) => error_response::<ResponsesDialect>(&error),
    }
}
