//! How a new turn comes into the store, together with the note by which its caller finds it.

use crate::{
    model::TurnRecord,
    ports::{Claim, Claimed, Committed, HistoryNote, Lease, Store, StoreError},
};

pub(super) struct NewTurn {
    record: TurnRecord,
    /// The caller finds it by this hash.
    found_by: Option<[u8; 32]>,
    turn: Part,
    note: Part,
}

/// How far something has come.
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

    /// Cancel safe.
    pub(super) async fn write(
        &mut self,
        store: &dyn Store,
        lease: &Lease,
    ) -> Result<(), StoreError> {
        self.queue(store, lease).await?;
        self.turn.committed().await?;
        self.note.committed().await
    }

    /// Both are queued before the first is waited for, so that one transaction has both. Cancel
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

    /// Unless the claim was made before.
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

    /// What a caller finds who asks the same again: the turn from its beginning.
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
