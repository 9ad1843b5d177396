//! Runs a request at most once: recognises repeated requests, and remembers each request for that
//! purpose.

use std::sync::Arc;

use angelia_core::{
    engine::{EngineError, RequestKey},
    model::{SessionId, TurnId},
    ports::{HistoryEntry, PendingCommit},
};
use jiff::Timestamp;

use super::{AttachedTurn, HashBytes, conversation_hash::digest, recent_requests::RecentRequest};
use crate::http::{
    HttpError,
    dialect::{AnswerStart, request::ResolvedRequest},
};

/// Attaches a repeated request to the turn of the earlier one, if that turn has a record.
pub(super) async fn attach_repeated(
    request: &ResolvedRequest,
) -> Result<Option<AttachedTurn>, HttpError> {
    let Some(earlier) = find_repeated(request).await? else {
        return Ok(None);
    };
    let engine = &request.state.engine;
    tracing::debug!(turn = %earlier.turn, "repeated request joins the first one's turn");
    let record = match engine.turn(earlier.turn).await {
        Ok(record) => record,
        Err(EngineError::NotFound(_)) => {
            // The record could not be written or was removed.
            request.state.recent_requests.forget(earlier.turn);
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some(AttachedTurn {
        id: earlier.turn,
        session: record.session,
        start: earlier.start,
        watch: engine.watch(earlier.turn, 0).await?,
        pending_commit: None,
    }))
}

async fn find_repeated(request: &ResolvedRequest) -> Result<Option<RecentRequest>, HttpError> {
    let recent = &request.state.recent_requests;
    let fingerprint = request.conversation.fingerprint;
    if let Some(earlier) = idempotency_hash(request).and_then(|key| recent.find(&key)) {
        if earlier.fingerprint != fingerprint {
            return Err(EngineError::KeyReused(earlier.turn).into());
        }
        return Ok(Some(earlier));
    }
    if let Some(earlier) = client_hash(request).and_then(|key| recent.find(&key)) {
        return Ok(Some(earlier));
    }
    // Equal content alone does not make a repeat. The client must mark it as a retry, or be one
    // that repeats a streamed request without streaming.
    let hints = &request.hints;
    let unstreamed = hints.may_repeat_unstreamed && !request.body.stream;
    if !unstreamed && !hints.is_retry {
        return Ok(None);
    }
    let content = content_hash(request);
    if let Some(earlier) = recent.find(&content) {
        return Ok((hints.is_retry || earlier.stream).then_some(earlier));
    }
    let stored = request.state.engine.find_by_history(content, 1).await?;
    Ok(stored.first().and_then(|entry| recent.find_stored(entry, fingerprint)))
}

/// Remembers the turn of a request in memory.
pub(super) fn remember(request: &ResolvedRequest, turn: TurnId, start: AnswerStart) {
    let keys = [Some(content_hash(request)), idempotency_hash(request), client_hash(request)];
    let fingerprint = request.conversation.fingerprint;
    let remembered = RecentRequest::new(turn, start, request.body.stream, fingerprint);
    request.state.recent_requests.insert(keys.into_iter().flatten(), remembered);
}

/// Records the turn of a request in the store, for a repeat after a restart. The caller must see
/// nothing before this is committed.
pub(super) async fn record_in_store(
    request: &ResolvedRequest,
    session: SessionId,
    turn: TurnId,
    start: AnswerStart,
) -> Result<PendingCommit, HttpError> {
    let entry = HistoryEntry {
        hash: content_hash(request),
        session,
        turn,
        seq: match start {
            AnswerStart::AfterEvent(seq) => seq,
            AnswerStart::Part(_) => 0,
        },
        at: Timestamp::now(),
    };
    Ok(request.state.engine.index_history(&entry).await?)
}

/// Returns the key that the engine stores with the turn, to recognise a repeat after a restart.
pub(super) fn request_key(request: &ResolvedRequest) -> Option<RequestKey> {
    let key = match (&request.hints.idempotency_key, client_hash(request)) {
        (Some(key), _) => format!("v1:{key}"),
        (None, Some(hash)) => format!("v1:client:{}", hex::encode(hash)),
        (None, None) => return None,
    };
    Some(RequestKey {
        caller: Arc::clone(&request.principal.name),
        key: key.into(),
        input: Some(request.conversation.fingerprint),
        window: request.state.models.current().idempotency_window,
    })
}

/// Returns the hash of the content of a request.
pub(super) fn content_hash(request: &ResolvedRequest) -> HashBytes {
    let previous = request.body.previous_turn.map(|turn| turn.as_uuid().into_bytes());
    let previous = previous.as_ref().map_or(&[][..], |bytes| bytes);
    digest([
        &b"request"[..],
        request.principal.name.as_bytes(),
        &request.conversation.fingerprint,
        previous,
        request.hints.conversation_name.as_deref().unwrap_or_default().as_bytes(),
        request.body.model.as_bytes(),
    ])
}

/// Returns the hash of the `Idempotency-Key`, which identifies the request regardless of its
/// content.
fn idempotency_hash(request: &ResolvedRequest) -> Option<HashBytes> {
    let key = request.hints.idempotency_key.as_ref()?;
    Some(digest([&b"key"[..], request.principal.name.as_bytes(), key.as_bytes()]))
}

/// Returns the hash of the `x-client-request-id` and the content, which identify a request only
/// together.
fn client_hash(request: &ResolvedRequest) -> Option<HashBytes> {
    let id = request.hints.client_request_id.as_ref()?;
    let caller = request.principal.name.as_bytes();
    Some(digest([&b"client"[..], caller, id.as_bytes(), &content_hash(request)]))
}
