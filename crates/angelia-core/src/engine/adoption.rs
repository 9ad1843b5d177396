//! Adoption: turns a conversation that a person began in an agent's own program into a session. The
//! agent continues a copy of the conversation, and its earlier exchanges are recorded as turns.

use super::{
    facade::{Engine, EngineError, NewSession},
    transcript::TurnTranscript,
};
use crate::{
    model::{
        EventKind, NativeSessionId, Outcome, PastTurn, SessionId, SessionRecord, TurnEvent, TurnId,
        TurnOptions, TurnOrigin, TurnRecord, TurnState, TurnStatus, Usage,
    },
    ports::{Lease, NewTurn, StoreError},
};

/// The reason recorded for turns that did not run in Angelia.
pub const ADOPTED_REASON: &str = "adopted";

impl Engine {
    /// Creates a session that continues a copy of this conversation, and records the conversation's
    /// turns. The original stays unchanged.
    pub async fn adopt_conversation(
        &self,
        new: NewSession,
        native: &NativeSessionId,
    ) -> Result<SessionRecord, EngineError> {
        let executor = self.shared.executor(&new.spec.executor)?;
        let spec = &new.spec;
        let not_read = |error: crate::ports::ConversationError| EngineError::Failed(error.into());
        let turns = executor.read_past_conversation(spec, native).await.map_err(not_read)?;
        let copy = executor.fork(spec, native).await.map_err(not_read)?;
        let mut session = self.create_session(new).await?;
        session.native = Some(copy);
        let recorded = async {
            session.revision = self.shared.store.put_session(&session).await?;
            self.record_past_turns(session.id, turns).await
        };
        if let Err(error) = recorded.await {
            // A session without its earlier turns would look like a new conversation.
            self.delete_session(session.id).await?;
            return Err(error.into());
        }
        self.shared.notify_changed(session.id);
        self.session(session.id).await
    }

    async fn record_past_turns(
        &self,
        session: SessionId,
        turns: Vec<PastTurn>,
    ) -> Result<(), StoreError> {
        let lease = self.shared.store.acquire_lease(session).await?;
        for turn in turns {
            self.record_past_turn(&lease, turn).await?;
        }
        self.shared.store.release_lease(lease).await
    }

    async fn record_past_turn(&self, lease: &Lease, past: PastTurn) -> Result<(), StoreError> {
        let turn = TurnId::from_uuid(self.shared.clock.fresh_uuid());
        let record = TurnRecord {
            id: turn,
            session: lease.session,
            input: past.input,
            options: TurnOptions::new(TurnOrigin::Owner),
            created_at: past.started_at,
            state: TurnState::Queued,
        };
        self.shared.store.create_turn(lease, &NewTurn::from(record)).await?;
        let mut transcript = TurnTranscript::default();
        let mut kinds = past.events;
        for (seq, kind) in (1..).zip(&kinds) {
            transcript.apply(seq, kind);
        }
        kinds.extend(transcript.closing_events(ADOPTED_REASON));
        kinds.push(EventKind::Finished(Outcome {
            status: TurnStatus::Completed,
            text: transcript.answer(),
            reason: ADOPTED_REASON.into(),
            // Angelia did not pay for this turn.
            usage: Usage::default(),
        }));
        let events = (1..).zip(kinds).map(|(seq, kind)| TurnEvent {
            turn,
            session: lease.session,
            seq,
            at: past.ended_at,
            kind,
        });
        self.shared.store.append(lease, events.collect()).await?.await
    }
}
