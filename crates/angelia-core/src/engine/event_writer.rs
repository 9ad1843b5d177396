//! Writes the events of a turn to the store. Keeps each event until its commit is confirmed, and
//! retries events that the store failed to write with the next write.

use std::{collections::VecDeque, mem::discriminant, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::sleep;

use super::text_cut::cut_texts;
use crate::{
    model::TurnEvent,
    ports::{Lease, PendingCommit, Store, StoreError},
};

/// Delays before each retry of a failed write: long enough to bridge a short disturbance, short
/// enough that the turn does not seem to hang.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];

/// Length up to which a text fits into every store.
pub(super) const SAFE_TEXT_BYTES: usize = 1 << 20;

pub(super) struct EventWriter {
    store: Arc<dyn Store>,
    lease: Lease,
    /// Batches whose commit is not confirmed yet, oldest first.
    unconfirmed: VecDeque<(PendingCommit, Arc<[TurnEvent]>)>,
    /// Events that were shown, but that the store failed to write.
    unwritten: Vec<TurnEvent>,
}

impl EventWriter {
    pub(super) fn new(store: Arc<dyn Store>, lease: Lease) -> Self {
        Self { store, lease, unconfirmed: VecDeque::new(), unwritten: Vec::new() }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Passes events that have been shown to the store, without waiting for the commit. Waits only
    /// if an earlier write has failed; an error means that the store cannot be written at the
    /// moment.
    pub(super) async fn queue(&mut self, events: &Arc<[TurnEvent]>) -> Result<(), StoreError> {
        let stored: Vec<_> = stored(events).cloned().collect();
        if stored.is_empty() {
            return Ok(());
        }
        while let Some((commit, _)) = self.unconfirmed.front_mut()
            && let Some(committed) = commit.now_or_never()
        {
            self.take_receipt(committed);
        }
        if self.unwritten.is_empty() {
            // No need to wait: the store commits in order, so an event that must be committed
            // before it is shown also waits for these.
            match self.store.append(&self.lease, stored).await {
                Ok(commit) => {
                    self.unconfirmed.push_back((commit, Arc::clone(events)));
                    return Ok(());
                }
                Err(error) => {
                    tracing::warn!(%error, "events could not be recorded; trying again");
                    self.unwritten.extend(self::stored(events).cloned());
                }
            }
        } else {
            self.unwritten.extend(stored);
        }
        self.commit(&mut Vec::new()).await
    }

    /// Commits events that no viewer has seen yet, after all earlier events. Cuts their texts if
    /// the store cannot take them. After an error, this writer forgets the events, so their numbers
    /// can be reused.
    pub(super) async fn commit(&mut self, events: &mut Vec<TurnEvent>) -> Result<(), StoreError> {
        if self.commit_with_unconfirmed(events).await {
            return Ok(());
        }
        while let Some((commit, _)) = self.unconfirmed.front_mut() {
            let committed = commit.await;
            self.take_receipt(committed);
        }
        let mut delays = RETRY_DELAYS.into_iter();
        loop {
            let all: Vec<_> = self.unwritten.iter().chain(stored(events)).cloned().collect();
            let Err(error) = write_once(&*self.store, &self.lease, &all).await else {
                self.unwritten.clear();
                return Ok(());
            };
            if matches!(error, StoreError::TooLarge { .. }) {
                let texts = self.unwritten.iter_mut().chain(&mut *events);
                if cut_texts(texts.map(|event| &mut event.kind), SAFE_TEXT_BYTES) {
                    continue;
                }
            }
            match delays.next() {
                Some(delay) if error.is_temporary() => sleep(delay).await,
                _ => return Err(error),
            }
        }
    }

    /// Queues events behind the unconfirmed ones without waiting for those, so that the store can
    /// commit all of them at once. Returns whether all of them are recorded.
    async fn commit_with_unconfirmed(&mut self, events: &[TurnEvent]) -> bool {
        let events: Vec<_> = stored(events).cloned().collect();
        if events.is_empty() || self.unconfirmed.is_empty() || !self.unwritten.is_empty() {
            return false;
        }
        let batches = self.unconfirmed.iter();
        // A batch is recorded completely or not at all, so its last event stands for the batch.
        let earlier = batches.filter_map(|(_, batch)| Some(stored(batch).last()?.seq)).collect();
        let written = match self.store.append_after(&self.lease, earlier, events).await {
            Ok(commit) => commit.await,
            Err(error) => Err(error),
        };
        if written.is_ok() {
            self.unconfirmed.clear();
        }
        written.is_ok()
    }

    /// Returns the events that were shown but not written.
    pub(super) fn take_unwritten(&mut self) -> Vec<TurnEvent> {
        std::mem::take(&mut self.unwritten)
    }

    /// Handles the result of the oldest unconfirmed write.
    fn take_receipt(&mut self, committed: Result<(), StoreError>) {
        let Some((_, events)) = self.unconfirmed.pop_front() else { return };
        if let Err(error) = committed {
            tracing::warn!(%error, "events could not be recorded; trying again");
            self.unwritten.extend(stored(&events).cloned());
        }
    }
}

/// Tries once to write events. Events that turn out to be recorded already count as written,
/// because a store may report an error although it has committed the write.
pub(super) async fn write_once(
    store: &dyn Store,
    lease: &Lease,
    events: &[TurnEvent],
) -> Result<(), StoreError> {
    let error = match append_and_wait(store, lease, events.to_vec()).await {
        Err(error @ (StoreError::DuplicateEvent { .. } | StoreError::TurnFinished)) => error,
        written => return written,
    };
    let mut rest = Vec::new();
    for event in events {
        if !is_recorded(store, event).await? {
            rest.push(event.clone());
        }
    }
    if rest.is_empty() {
        Ok(())
    } else if rest.len() < events.len() {
        append_and_wait(store, lease, rest).await
    } else {
        Err(error)
    }
}

async fn append_and_wait(
    store: &dyn Store,
    lease: &Lease,
    events: Vec<TurnEvent>,
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    store.append(lease, events).await?.await
}

/// Returns whether the store has this very event, not just another event with the same number.
async fn is_recorded(store: &dyn Store, event: &TurnEvent) -> Result<bool, StoreError> {
    let found = store.replay(event.turn, event.seq.saturating_sub(1), 1).await?;
    Ok(found.first().is_some_and(|known| {
        (known.seq, known.at) == (event.seq, event.at)
            && discriminant(&known.kind) == discriminant(&event.kind)
    }))
}

fn stored(events: &[TurnEvent]) -> impl Iterator<Item = &TurnEvent> {
    events.iter().filter(|event| event.kind.is_stored())
}
