//! Runs a request at most once: recognises a repeated request and remembers each request for that
//! purpose.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::{
    engine::{EngineError, RequestKey},
    model::{SessionId, TurnId},
    ports::{Committed, HistoryNote},
};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::{
    Ask, DialectError, ShownFrom,
    answer::Taken,
    canonical::Hash,
    marks::Marks,
    recent,
    serve::{Asked, Serving},
};

/// The hashes under which a request is remembered.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    /// The hash of its content.
    pub(super) plain: Hash,
    /// The hash of its `Idempotency-Key`.
    keyed: Option<Hash>,
    /// The hash of its `x-client-request-id` and content.
    client: Option<Hash>,
}

impl Keys {
    pub(super) fn new(caller: &str, ask: &Ask, marks: &Marks, fingerprint: Hash) -> Self {
        let caller = caller.as_bytes();
        let previous = ask.previous.map(|turn| turn.as_uuid().into_bytes());
        let previous = previous.as_ref().map_or(&[][..], |bytes| bytes);
        let narrowed = marks.narrowed.as_deref().unwrap_or_default();
        let plain = hash(&[
            b"request",
            caller,
            &fingerprint,
            previous,
            narrowed.as_bytes(),
            ask.model.as_bytes(),
        ]);
        let keyed = marks.idempotency.as_ref();
        let client = marks.client_request.as_ref();
        Self {
            plain,
            keyed: keyed.map(|key| hash(&[b"key", caller, key.as_bytes()])),
            client: client.map(|id| hash(&[b"client", caller, id.as_bytes(), &plain])),
        }
    }
}

impl Serving<'_> {
    /// Returns the earlier request that this one repeats, if any.
    pub(super) async fn repeated(
        self,
        asked: &Asked,
    ) -> Result<Option<recent::Request>, DialectError> {
        let recent = &self.state.recent;
        let fingerprint = asked.incoming.fingerprint();
        let Keys { plain, keyed, client } = asked.keys;
        if let Some(request) = keyed.and_then(|key| recent.like(&key)) {
            if request.fingerprint != fingerprint {
                return Err(EngineError::KeyReused(request.turn).into());
            }
            return Ok(Some(request));
        }
        if let Some(request) = client.and_then(|key| recent.like(&key)) {
            return Ok(Some(request));
        }
        // Equal content alone does not make a repeat: the client must mark it as a retry, or be one
        // that repeats a stream without streaming.
        let flips = asked.marks.flips && !asked.ask.stream;
        if !flips && !asked.marks.is_retry {
            return Ok(None);
        }
        if let Some(request) = recent.like(&plain) {
            let repeats = asked.marks.is_retry || request.stream;
            return Ok(repeats.then_some(request));
        }
        let notes = self.state.engine.with_history(plain, 1).await?;
        let earlier = notes.first();
        Ok(earlier.and_then(|note| recent.before_restart(note, fingerprint)))
    }

    /// Remembers the turn of a request in memory.
    pub(super) fn remember(self, asked: &Asked, turn: TurnId, from: ShownFrom) {
        let keys = asked.keys;
        let fingerprint = asked.incoming.fingerprint();
        let all = [Some(keys.plain), keys.keyed, keys.client];
        let recent = &self.state.recent;
        recent.note(all.into_iter().flatten(), fingerprint, turn, from, asked.ask.stream);
    }

    /// Records the turn of a request in the store, for a repeat after a restart. The caller sees
    /// nothing before this is committed.
    pub(super) async fn note(
        self,
        asked: &Asked,
        session: SessionId,
        turn: TurnId,
        from: ShownFrom,
    ) -> Result<Committed, DialectError> {
        let note = HistoryNote {
            hash: asked.keys.plain,
            session,
            turn,
            seq: match from {
                ShownFrom::After(seq) => seq,
                ShownFrom::Part(_) => 0,
            },
            at: Timestamp::now(),
        };
        Ok(self.state.engine.note_history(&note).await?)
    }

    /// Attaches a repeated request to the turn of the first one. Returns `None` if the turn has no
    /// record, because it could not be written or was removed.
    pub(super) async fn attach(
        self,
        asked: &Asked,
        request: recent::Request,
    ) -> Result<Option<Taken>, DialectError> {
        tracing::debug!(turn = %request.turn, "repeated request joins the first one's turn");
        let record = match self.state.engine.turn(request.turn).await {
            Ok(record) => record,
            Err(EngineError::NotFound(_)) => {
                self.state.recent.forget(request.turn);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Taken {
            turn: request.turn,
            session: record.session,
            from: request.from,
            watch: self.state.engine.watch(request.turn, 0).await?,
            noted: None,
            mode: asked.launch.spec.mode,
            options: record.options,
        }))
    }

    /// Returns the key that the engine stores with the turn, to recognise a repeat after a restart.
    pub(super) fn request_key(self, asked: &Asked) -> Option<RequestKey> {
        let key = match (&asked.marks.idempotency, asked.keys.client) {
            (Some(key), _) => format!("v1:{key}"),
            (None, Some(client)) => {
                let mut key = "v1:client:".to_owned();
                for byte in client {
                    let _infallible = write!(key, "{byte:02x}");
                }
                key
            }
            (None, None) => return None,
        };
        Some(RequestKey {
            caller: Arc::clone(&self.who.name),
            key: key.into(),
            input: Some(asked.incoming.fingerprint()),
            window: self.state.models.idempotency_window,
        })
    }
}

fn hash(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}
