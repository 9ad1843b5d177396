//! `POST /hooks/{name}`: signed webhooks. The signature replaces a token.

use angelia_core::engine::EngineError;
use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde_json::json;

use super::{ErrorKind, HttpError, body::BodyBytes, state::SharedState};
use crate::hooks_in::{HookOutcome, HookRefusal, HookRequest};

/// The largest body. No sender needs more, and anybody may send one.
const MAX_BODY_BYTES: usize = 1 << 20;

pub(super) async fn receive(
    State(state): SharedState,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<BodyBytes, HttpError>,
) -> Result<Response, HttpError> {
    let body = body?;
    let body = body.as_slice();
    let Some(hooks) = &state.hooks else { return Err(refused(HookRefusal::NotAccepted)) };
    if body.len() > MAX_BODY_BYTES {
        return Err(HttpError::new(ErrorKind::TooLarge, "the body of a webhook has at most 1 MiB"));
    }
    let headers: Vec<(String, String)> = headers
        .iter()
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    let received = hooks.receive(&name, HookRequest { headers: &headers, body }).await;
    Ok(match received.map_err(refused)? {
        HookOutcome::Begun { turn, session } => {
            let begun = json!({"turn_id": turn.to_string(), "session_id": session.to_string()});
            (StatusCode::ACCEPTED, Json(begun)).into_response()
        }
        HookOutcome::Repeated => Json(json!({"repeated": true})).into_response(),
        HookOutcome::Challenge(challenge) => Json(json!({"challenge": challenge})).into_response(),
    })
}

fn refused(refusal: HookRefusal) -> HttpError {
    match refusal {
        HookRefusal::NotAccepted => HttpError::new(ErrorKind::NoKey, refusal.to_string())
            .with_hint(
                "check the name, the secret and the clock; `hooks_in` in config.yaml has them",
            ),
        HookRefusal::Template(..) => HttpError::invalid(refusal.to_string()),
        HookRefusal::Engine(error) => error.into(),
        HookRefusal::Profile(failure) => HttpError::from(EngineError::Failed(failure)),
    }
}
