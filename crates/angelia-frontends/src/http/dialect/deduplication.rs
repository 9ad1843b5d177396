//! Runs a request at most once: recognises a repeated request and remembers each request for that
//! purpose.

use std::sync::Arc;

use angelia_core::{
    engine::{EngineError, RequestKey},
    model::{SessionId, TurnId},
    ports::{HistoryEntry, PendingCommit},
};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::{
    DialectError, ModelRequest, ShownFrom,
    conversation_hash::HashBytes,
    live_answer::AttachedTurn,
    recent_requests,
    request_hints::RequestHints,
    serve::{RequestHandler, ResolvedRequest},
};

/// The hashes under which a request is remembered.
#[derive(Clone, Copy)]
pub(super) struct RequestHashes {
    /// The hash of its content.
    pub(super) content: HashBytes,
    /// The hash of its `Idempotency-Key`.
    idempotency_key: Option<HashBytes>,
    /// The hash of its `x-client-request-id` and content.
    client_request: Option<HashBytes>,
}

impl RequestHashes {
    pub(super) fn new(
        caller: &str,
        ask: &ModelRequest,
        marks: &RequestHints,
        fingerprint: HashBytes,
    ) -> Self {
        let caller = caller.as_bytes();
        let previous = ask.previous_turn.map(|turn| turn.as_uuid().into_bytes());
        let previous = previous.as_ref().map_or(&[][..], |bytes| bytes);
        let narrowed = marks.conversation_name.as_deref().unwrap_or_default();
        let plain = hash(&[
            b"request",
            caller,
            &fingerprint,
            previous,
            narrowed.as_bytes(),
            ask.model.as_bytes(),
        ]);
        let keyed = marks.idempotency_key.as_ref();
        let client = marks.client_request_id.as_ref();
        Self {
            content: plain,
            idempotency_key: keyed.map(|key| hash(&[b"key", caller, key.as_bytes()])),
            client_request: client.map(|id| hash(&[b"client", caller, id.as_bytes(), &plain])),
        }
    }
}

impl RequestHandler<'_> {
    /// Returns the earlier request that this one repeats, if any.
    pub(super) async fn find_repeated(
        self,
        asked: &ResolvedRequest,
    ) -> Result<Option<recent_requests::RecentRequest>, DialectError> {
        let recent = &self.state.recent_requests;
        let fingerprint = asked.conversation.fingerprint();
        let RequestHashes { content: plain, idempotency_key: keyed, client_request: client } =
            asked.hashes;
        if let Some(request) = keyed.and_then(|key| recent.find(&key)) {
            if request.fingerprint != fingerprint {
                return Err(EngineError::KeyReused(request.turn).into());
            }
            return Ok(Some(request));
        }
        if let Some(request) = client.and_then(|key| recent.find(&key)) {
            return Ok(Some(request));
        }
        // Equal content alone does not make a repeat: the client must mark it as a retry, or be one
        // that repeats a stream without streaming.
        let flips = asked.hints.may_repeat_unstreamed && !asked.request.stream;
        if !flips && !asked.hints.is_retry {
            return Ok(None);
        }
        if let Some(request) = recent.find(&plain) {
            let repeats = asked.hints.is_retry || request.stream;
            return Ok(repeats.then_some(request));
        }
        let notes = self.state.engine.find_by_history(plain, 1).await?;
        let earlier = notes.first();
        Ok(earlier.and_then(|note| recent.find_stored(note, fingerprint)))
    }

    /// Remembers the turn of a request in memory.
    pub(super) fn remember(self, asked: &ResolvedRequest, turn: TurnId, from: ShownFrom) {
        let keys = asked.hashes;
        let fingerprint = asked.conversation.fingerprint();
        let all = [Some(keys.content), keys.idempotency_key, keys.client_request];
        let recent = &self.state.recent_requests;
        recent.insert(all.into_iter().flatten(), fingerprint, turn, from, asked.request.stream);
    }

    /// Records the turn of a request in the store, for a repeat after a restart. The caller sees
    /// nothing before this is committed.
    pub(super) async fn record_in_store(
        self,
        asked: &ResolvedRequest,
        session: SessionId,
        turn: TurnId,
        from: ShownFrom,
    ) -> Result<PendingCommit, DialectError> {
        let note = HistoryEntry {
            hash: asked.hashes.content,
            session,
            turn,
            seq: match from {
                ShownFrom::AfterEvent(seq) => seq,
                ShownFrom::Part(_) => 0,
            },
            at: Timestamp::now(),
        };
        Ok(self.state.engine.index_history(&note).await?)
    }

    /// Attaches a repeated request to the turn of the first one. Returns `None` if the turn has no
    /// record, because it could not be written or was removed.
    pub(super) async fn attach(
        self,
        asked: &ResolvedRequest,
        request: recent_requests::RecentRequest,
    ) -> Result<Option<AttachedTurn>, DialectError> {
        tracing::debug!(turn = %request.turn, "repeated request joins the first one's turn");
        let record = match self.state.engine.turn(request.turn).await {
            Ok(record) => record,
            Err(EngineError::NotFound(_)) => {
                self.state.recent_requests.forget(request.turn);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Some(AttachedTurn {
            turn: request.turn,
            session: record.session,
            start: request.start,
            watch: self.state.engine.watch(request.turn, 0).await?,
            pending_commit: None,
            mode: asked.launch.spec.mode,
            options: record.options,
        }))
    }

    /// Returns the key that the engine stores with the turn, to recognise a repeat after a restart.
    pub(super) fn request_key(self, asked: &ResolvedRequest) -> Option<RequestKey> {
        let key = match (&asked.hints.idempotency_key, asked.hashes.client_request) {
            (Some(key), _) => format!("v1:{key}"),
            (None, Some(client)) => format!("v1:client:{}", hex::encode(client)),
            (None, None) => return None,
        };
        Some(RequestKey {
            caller: Arc::clone(&self.principal.name),
            key: key.into(),
            input: Some(asked.conversation.fingerprint()),
            window: self.state.models.idempotency_window,
        })
    }
}

fn hash(parts: &[&[u8]]) -> HashBytes {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}
