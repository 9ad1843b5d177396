//! Writes a new turn to the store, together with the history entry by which its caller finds it.

use crate::{
    model::TurnRecord,
    ports::{Claim, Claimed, Committed, HistoryNote, Lease, Store, StoreError},
};

pub(super) struct NewTurn {
    record: TurnRecord,
    /// Hash under which the caller finds the turn.
    found_by: Option<[u8; 32]>,
    turn: Part,
    note: Part,
}

/// Progress of one write.
#[derive(Default)]
enum Part {
    #[default]
    New,
    Queued(Committed),
    Committed,
}

impl NewTurn {
    pub(super) fn new(record: TurnRecord, found_by: Option<[u8; 32]>) -> Self {
        Self { record, found_by, turn: Part::New, note: Part::New }
    }

    /// Commits the turn and its history entry. Cancel safe.
    pub(super) async fn write(
        &mut self,
        store: &dyn Store,
        lease: &Lease,
    ) -> Result<(), StoreError> {
        self.queue(store, lease).await?;
        self.turn.committed().await?;
        self.note.committed().await
    }

    /// Queues both writes before waiting for either, so that one transaction commits both. Cancel
    /// safe.
    pub(super) async fn queue(
        &mut self,
        store: &dyn Store,
        lease: &Lease,
    ) -> Result<(), StoreError> {
        if let Part::New = self.turn {
            self.turn = Part::Queued(store.create_turn(lease, &self.record).await?);
        }
        if let (Part::New, Some(note)) = (&self.note, self.note()) {
            self.note = Part::Queued(store.note_history(&note).await?);
        }
        Ok(())
    }

    pub(super) const fn is_queued(&self) -> bool {
        !matches!(self.turn, Part::New)
    }

    /// Commits the turn and its history entry unless the key was claimed before.
    pub(super) async fn write_once(
        &self,
        store: &dyn Store,
        lease: &Lease,
        claim: &Claim,
    ) -> Result<Claimed, StoreError> {
        let claimed = store.create_turn_once(lease, &self.record, claim).await?;
        if let (Claimed::New, Some(note)) = (claimed, self.note()) {
            store.note_history(&note).await?.await?;
        }
        Ok(claimed)
    }

    /// The entry points to the start of the turn (`seq: 0`): a caller that repeats the request gets
    /// all of it.
    fn note(&self) -> Option<HistoryNote> {
        self.found_by.map(|hash| HistoryNote {
            hash,
            session: self.record.session,
            turn: self.record.id,
            seq: 0,
            at: self.record.created_at,
        })
    }
}

impl Part {
    async fn committed(&mut self) -> Result<(), StoreError> {
        if let Self::Queued(committed) = self {
            committed.await?;
            *self = Self::Committed;
        }
        Ok(())
    }
}
