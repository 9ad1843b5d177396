//! The queue in front of the writer thread. Everything that is queued while the writer syncs goes
//! into its next group.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::bus::bus_core::PublishBatch;

/// Bytes that may wait in the queue; further senders wait for room.
const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// Acknowledgements are not urgent: they wait this long for messages to be written together with.
const ACK_DELAY: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct WriteQueue {
    pending: Mutex<WriteGroup>,
    wake: Condvar,
    room: std::sync::Arc<Semaphore>,
}

#[derive(Debug, Default)]
pub(super) struct WriteGroup {
    pub(super) batches: Vec<(PublishBatch, OwnedSemaphorePermit)>,
    pub(super) done_positions: Vec<u64>,
    pub(super) dead_letters: Vec<(u64, i64, String)>,
    pub(super) close_waiters: Vec<oneshot::Sender<()>>,
    is_closed: bool,
}

impl WriteGroup {
    fn is_urgent(&self) -> bool {
        !self.batches.is_empty() || !self.close_waiters.is_empty() || self.is_closed
    }

    fn has_acks(&self) -> bool {
        !self.done_positions.is_empty() || !self.dead_letters.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl WriteQueue {
    pub(super) fn new() -> Self {
        Self {
            pending: Mutex::default(),
            wake: Condvar::new(),
            room: std::sync::Arc::new(Semaphore::new(MAX_QUEUED_BYTES)),
        }
    }

    /// Queues a batch, waiting for room. Returns the batch if the bus has been closed.
    pub(super) async fn push(&self, batch: PublishBatch) -> Result<(), PublishBatch> {
        let bytes: usize = batch.messages.iter().map(|one| one.message.envelope.len()).sum();
        let permits = u32::try_from(bytes.clamp(1, MAX_QUEUED_BYTES)).unwrap_or(u32::MAX);
        let room = std::sync::Arc::clone(&self.room);
        // The semaphore is closed together with the queue: the writer takes no more batches.
        let Ok(permit) = room.acquire_many_owned(permits).await else {
            return Err(batch);
        };
        let mut pending = self.pending.lock();
        if pending.is_closed {
            return Err(batch);
        }
        pending.batches.push((batch, permit));
        self.wake.notify_one();
        Ok(())
    }

    pub(super) fn push_done(&self, mut positions: Vec<u64>) {
        let mut pending = self.pending.lock();
        // Only the first acknowledgement wakes the writer, which then waits for more of them.
        let was_quiet = !pending.has_acks();
        if pending.done_positions.is_empty() {
            pending.done_positions = positions;
        } else {
            pending.done_positions.append(&mut positions);
        }
        if was_quiet {
            self.wake.notify_one();
        }
    }

    pub(super) fn push_dead(&self, position: u64, at: i64, reason: &str) {
        self.pending.lock().dead_letters.push((position, at, reason.to_owned()));
        self.wake.notify_one();
    }

    pub(super) fn close(&self, closed: Option<oneshot::Sender<()>>) {
        let mut pending = self.pending.lock();
        pending.is_closed = true;
        pending.close_waiters.extend(closed);
        self.room.close();
        self.wake.notify_one();
    }

    /// Takes everything that is queued, after waiting at most `at_most` for something.
    pub(super) fn take_group(&self, at_most: Duration) -> WriteGroup {
        let mut pending = self.pending.lock();
        if !pending.is_urgent() && !pending.has_acks() {
            let quiet = |work: &mut WriteGroup| !work.is_urgent() && !work.has_acks();
            self.wake.wait_while_for(&mut pending, quiet, at_most);
        }
        if !pending.is_urgent() && pending.has_acks() {
            let calm = |work: &mut WriteGroup| !work.is_urgent();
            self.wake.wait_while_for(&mut pending, calm, ACK_DELAY);
        }
        let is_closed = pending.is_closed;
        let work = std::mem::take(&mut *pending);
        pending.is_closed = is_closed;
        WriteGroup { is_closed, ..work }
    }
}
