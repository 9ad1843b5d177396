//! At most once: whether a request was made before, and what is remembered of it so that a repeat
//! is known.

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

/// Under what a request is remembered.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    /// What it says.
    pub(super) plain: Hash,
    /// What its headers say.
    keyed: Option<Hash>,
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
    /// Was it asked before?
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

    /// Remembers what becomes of a request.
    pub(super) fn remember(self, asked: &Asked, turn: TurnId, from: ShownFrom) {
        let keys = asked.keys;
        let fingerprint = asked.incoming.fingerprint();
        let all = [Some(keys.plain), keys.keyed, keys.client];
        let recent = &self.state.recent;
        recent.note(all.into_iter().flatten(), fingerprint, turn, from, asked.ask.stream);
    }

    /// The same, for a repeat after a restart: the caller sees nothing before that is committed.
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

    /// `None`: there is no record of the turn, because it could not be written or was removed.
    pub(super) async fn attach(
        self,
        asked: &Asked,
        request: recent::Request,
    ) -> Result<Option<Taken>, DialectError> {
        tracing::debug!(turn = %request.turn, "a repeated request gets the turn of the first");
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

    /// What must be found also after a restart.
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
