//! `GET /api/events`: all changes, as server-sent events. Each event contains the new resource
//! itself. The text of a running turn is in the events of that turn.

use axum::{
    body::Body,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};

use super::super::{feed, sse, state::SharedState};

pub(super) async fn events(State(state): SharedState, headers: HeaderMap) -> Response {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let stream = feed::follow(&state, last);
    (sse::HEADERS, Body::from_stream(stream)).into_response()
}
