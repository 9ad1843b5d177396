//! `GET /api/turns/{id}/events`: a turn as server-sent events, live or from the record, starting
//! after any event.

use std::{borrow::Cow, sync::Arc};

use angelia_core::{
    engine::{EventBatch, TurnWatch},
    model::{Approval, EventKind, Seq, ToolResult, TurnEvent, TurnId, TurnState},
    ports::StoreError,
};
use angelia_wire::sse::SseEncoder;
use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use futures_util::{Stream, stream};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::{ApiState, HttpError, body::QueryParams, reach::AgentCaller, sse, state::SharedState},
    PathId,
};
use crate::event_json::{event_type, write_event};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct EventsQuery {
    /// Only events after this number.
    #[schemars(extend("maximum" = Seq::MAX))]
    after: Option<Seq>,
    /// Interrupts the turn when the client disconnects.
    #[serde(default)]
    hold: bool,
}

pub(super) async fn events(
    State(state): SharedState,
    PathId(turn): PathId<TurnId>,
    headers: HeaderMap,
    agent: Option<Extension<AgentCaller>>,
    QueryParams(query): QueryParams<EventsQuery>,
) -> Result<Response, HttpError> {
    let reader = if agent.is_some() { EventReader::Agent } else { EventReader::Owner };
    // The header is newer than the query: a reconnecting browser repeats the original URL.
    let after = last_event_id(&headers)?.or(query.after).unwrap_or(0);
    let mut watch = state.engine.watch(turn, after).await?;
    let mut first = None;
    if after > 0 && is_over(&state, turn).await? {
        first = watch.next().await?;
        if first.is_none() {
            // A 204 makes a browser stop reconnecting.
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let held = query.hold.then(|| InterruptOnDrop { state: Arc::clone(&state), turn });
    let body = Body::from_stream(event_stream(watch, first, held, reader));
    Ok((sse::HEADERS, body).into_response())
}

async fn is_over(state: &ApiState, turn: TurnId) -> Result<bool, HttpError> {
    let turn = state.engine.turn(turn).await?;
    Ok(matches!(turn.state, TurnState::Finished { .. }))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<Seq>, HttpError> {
    let Some(id) = headers.get("last-event-id") else {
        return Ok(None);
    };
    match id.to_str().map(str::trim) {
        Ok("") => Ok(None),
        Ok(id) if let Some(seq) = parse_seq(id) => Ok(Some(seq)),
        _ => Err(HttpError::invalid("Last-Event-ID: this is not the number of an event")),
    }
}

/// Parses an event number in our format: only digits, at most 18.
fn parse_seq(id: &str) -> Option<Seq> {
    let is_one = id.len() <= 18 && id.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| id.parse().ok()).flatten()
}

/// The reader of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventReader {
    Owner,
    /// An agent's process, which must not read a file by asking to edit it.
    Agent,
}

impl EventReader {
    fn visible(self, event: &TurnEvent) -> Cow<'_, TurnEvent> {
        let kind = match &event.kind {
            _ if self == Self::Owner => None,
            EventKind::Approval(approval) if approval.diff.is_some() => {
                Some(EventKind::Approval(Approval { diff: None, ..approval.clone() }))
            }
            EventKind::ToolResult(result) if result.diff.is_some() => {
                Some(EventKind::ToolResult(ToolResult { diff: None, ..result.clone() }))
            }
            _ => None,
        };
        match kind {
            Some(kind) => Cow::Owned(TurnEvent { kind, ..event.clone() }),
            None => Cow::Borrowed(event),
        }
    }
}

/// Interrupts its turn when dropped, which happens when the client disconnects.
struct InterruptOnDrop {
    state: Arc<ApiState>,
    turn: TurnId,
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        let (state, turn) = (Arc::clone(&self.state), self.turn);
        self.state.tasks.spawn(async move { state.interrupt(turn).await });
    }
}

/// Encodes events as they arrive, and a keep-alive comment when nothing happens for a while.
fn event_stream(
    watch: TurnWatch,
    first: Option<EventBatch>,
    held: Option<InterruptOnDrop>,
    reader: EventReader,
) -> impl Stream<Item = Result<Bytes, StoreError>> {
    let seed = (watch, first, held);
    stream::try_unfold(seed, move |(mut watch, first, held)| async move {
        let mut out = BytesMut::new();
        if let Some(batch) = first {
            encode_batch(&batch, reader, &mut out);
            return Ok(Some((out.freeze(), (watch, None, held))));
        }
        match tokio::time::timeout(sse::KEEP_ALIVE_INTERVAL, watch.next()).await {
            Ok(Ok(Some(batch))) => encode_batch(&batch, reader, &mut out),
            Ok(Ok(None)) => return Ok(None),
            // The client sees a truncated stream and reconnects for the rest.
            Ok(Err(error)) => return Err(error),
            Err(_nothing_new) => SseEncoder::new(&mut out).comment("keep-alive").end(),
        }
        Ok(Some((out.freeze(), (watch, None, held))))
    })
}

fn encode_batch(batch: &EventBatch, reader: EventReader, out: &mut BytesMut) {
    let mut json = Vec::with_capacity(512);
    for event in batch.iter() {
        json.clear();
        write_event(&reader.visible(event), &mut json);
        SseEncoder::new(out)
            .id(&event.seq.to_string())
            .event(event_type(&event.kind))
            .data(&json)
            .end();
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::{SessionId, ToolId};
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_agent_reads_no_file_by_editing_it() {
        let result = ToolResult {
            diff: Some("-secret\n".into()),
            ..ToolResult::new(ToolId::new("t"), true, "done")
        };
        let event = TurnEvent {
            turn: TurnId::from_uuid(Uuid::nil()),
            session: SessionId::from_uuid(Uuid::nil()),
            seq: 1,
            at: Timestamp::UNIX_EPOCH,
            kind: EventKind::ToolResult(result),
        };
        let diff = |reader: EventReader| match &reader.visible(&event).kind {
            EventKind::ToolResult(result) => result.diff.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(diff(EventReader::Owner).as_deref(), Some("-secret\n"));
        assert_eq!(diff(EventReader::Agent), None);
    }
}
