//! Writes a new turn to the store, together with the history entry by which its caller finds it.

use crate::{
    model::TurnRecord,
    ports::{ClaimOutcome, HistoryEntry, Lease, PendingCommit, RequestClaim, Store, StoreError},
};

pub(super) struct NewTurn {
    record: TurnRecord,
    /// Hash under which the caller finds the turn.
    history_hash: Option<[u8; 32]>,
    turn_write: WriteProgress,
    history_write: WriteProgress,
}

/// Progress of one write.
#[derive(Default)]
enum WriteProgress {
    #[default]
    New,
    Queued(PendingCommit),
    Committed,
}

impl NewTurn {
    pub(super) fn new(record: TurnRecord, found_by: Option<[u8; 32]>) -> Self {
        Self {
            record,
            history_hash: found_by,
            turn_write: WriteProgress::New,
            history_write: WriteProgress::New,
        }
    }

    /// Commits the turn and its history entry. Cancel safe.
    pub(super) async fn write(
        &mut self,
        store: &dyn Store,
        lease: &Lease,
    ) -> Result<(), StoreError> {
        self.queue(store, lease).await?;
        self.turn_write.wait_committed().await?;
        self.history_write.wait_committed().await
    }

    /// Queues both writes before waiting for either, so that one transaction commits both. Cancel
    /// safe.
    pub(super) async fn queue(
        &mut self,
        store: &dyn Store,
        lease: &Lease,
    ) -> Result<(), StoreError> {
        if let WriteProgress::New = self.turn_write {
            self.turn_write = WriteProgress::Queued(store.create_turn(lease, &self.record).await?);
        }
        if let (WriteProgress::New, Some(note)) = (&self.history_write, self.history_entry()) {
            self.history_write = WriteProgress::Queued(store.index_history(&note).await?);
        }
        Ok(())
    }

    pub(super) const fn is_queued(&self) -> bool {
        !matches!(self.turn_write, WriteProgress::New)
    }

    /// Commits the turn and its history entry unless the key was claimed before.
    pub(super) async fn write_once(
        &self,
        store: &dyn Store,
        lease: &Lease,
        claim: &RequestClaim,
    ) -> Result<ClaimOutcome, StoreError> {
        let claimed = store.create_turn_once(lease, &self.record, claim).await?;
        if let (ClaimOutcome::New, Some(note)) = (claimed, self.history_entry()) {
            store.index_history(&note).await?.await?;
        }
        Ok(claimed)
    }

    /// The entry points to the start of the turn (`seq: 0`): a caller that repeats the request gets
    /// all of it.
    fn history_entry(&self) -> Option<HistoryEntry> {
        self.history_hash.map(|hash| HistoryEntry {
            hash,
            session: self.record.session,
            turn: self.record.id,
            seq: 0,
            at: self.record.created_at,
        })
    }
}

impl WriteProgress {
    async fn wait_committed(&mut self) -> Result<(), StoreError> {
        if let Self::Queued(committed) = self {
            committed.await?;
            *self = Self::Committed;
        }
        Ok(())
    }
}
