//! The queue in front of the writer thread. Everything that is queued while the writer syncs goes
//! into its next group.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::bus::shared::Batch;

/// Bytes that may wait in the queue; further senders wait for room.
const ROOM: usize = 16 * 1024 * 1024;

/// Acknowledgements are not urgent: they wait this long for messages to be written together with.
const ACKS_WAIT: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Inlet {
    pending: Mutex<Work>,
    wake: Condvar,
    room: std::sync::Arc<Semaphore>,
}

#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) batches: Vec<(Batch, OwnedSemaphorePermit)>,
    pub(super) done: Vec<u64>,
    pub(super) dead: Vec<(u64, i64, String)>,
    pub(super) closing: Vec<oneshot::Sender<()>>,
    is_closed: bool,
}

impl Work {
    fn is_urgent(&self) -> bool {
        !self.batches.is_empty() || !self.closing.is_empty() || self.is_closed
    }

    fn has_acks(&self) -> bool {
        !self.done.is_empty() || !self.dead.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl Inlet {
    pub(super) fn new() -> Self {
        Self {
            pending: Mutex::default(),
            wake: Condvar::new(),
            room: std::sync::Arc::new(Semaphore::new(ROOM)),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Work> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a batch, waiting for room. Returns the batch if the bus has been closed.
    pub(super) async fn push(&self, batch: Batch) -> Result<(), Batch> {
        let bytes: usize = batch.outgoing.iter().map(|one| one.message.envelope.len()).sum();
        let permits = u32::try_from(bytes.clamp(1, ROOM)).unwrap_or(u32::MAX);
        let room = std::sync::Arc::clone(&self.room);
        // The semaphore is closed together with the queue: the writer takes no more batches.
        let Ok(permit) = room.acquire_many_owned(permits).await else {
            return Err(batch);
        };
        let mut pending = self.pending();
        if pending.is_closed {
            return Err(batch);
        }
        pending.batches.push((batch, permit));
        self.wake.notify_one();
        Ok(())
    }

    pub(super) fn done(&self, mut positions: Vec<u64>) {
        let mut pending = self.pending();
        // Only the first acknowledgement wakes the writer, which then waits for more of them.
        let was_quiet = !pending.has_acks();
        if pending.done.is_empty() {
            pending.done = positions;
        } else {
            pending.done.append(&mut positions);
        }
        if was_quiet {
            self.wake.notify_one();
        }
    }

    pub(super) fn dead(&self, position: u64, at: i64, reason: &str) {
        self.pending().dead.push((position, at, reason.to_owned()));
        self.wake.notify_one();
    }

    pub(super) fn close(&self, closed: Option<oneshot::Sender<()>>) {
        let mut pending = self.pending();
        pending.is_closed = true;
        pending.closing.extend(closed);
        self.room.close();
        self.wake.notify_one();
    }

    /// Takes everything that is queued, after waiting at most `at_most` for something.
    pub(super) fn take(&self, at_most: Duration) -> Work {
        let mut pending = self.pending();
        if !pending.is_urgent() && !pending.has_acks() {
            let quiet = |work: &mut Work| !work.is_urgent() && !work.has_acks();
            let waited = self.wake.wait_timeout_while(pending, at_most, quiet);
            pending = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !pending.is_urgent() && pending.has_acks() {
            let calm = |work: &mut Work| !work.is_urgent();
            let waited = self.wake.wait_timeout_while(pending, ACKS_WAIT, calm);
            pending = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_closed = pending.is_closed;
        let work = std::mem::take(&mut *pending);
        pending.is_closed = is_closed;
        Work { is_closed, ..work }
    }
}
