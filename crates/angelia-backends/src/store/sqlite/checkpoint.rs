//! Moves committed pages from the write-ahead log into the database, on a thread of its own: a
//! checkpoint waits for the disk, and no commit should. Commits that run at the same time wait too
//! (some of them for several milliseconds), so the checkpoint is postponed to a moment without
//! writes, as long as the log is not too long.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::open;

/// A checkpoint is considered after this many transactions: about as many as SQLite itself would
/// let pile up.
const CHECKPOINT_TRANSACTIONS: u32 = 256;

/// From this many transactions on, the checkpoint no longer waits for a quiet moment: about half of
/// the number at which a commit itself would run it.
const MAX_PENDING_TRANSACTIONS: u32 = 1024;

/// The time without a write that counts as a quiet moment.
const QUIET_DELAY: Duration = Duration::from_millis(200);

/// The checkpoint thread, started when it is first needed: a single command never needs it.
pub(super) struct Checkpointer {
    path: Arc<Path>,
    /// Transactions since the last checkpoint.
    pending_transactions: Arc<AtomicU32>,
    thread: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Checkpointer {
    pub(super) fn new(path: Arc<Path>) -> Self {
        Self { path, pending_transactions: Arc::default(), thread: None }
    }

    /// Counts a transaction and wakes the thread now and then. Never waits for the thread.
    pub(super) fn note_commit(&mut self) {
        let waiting = self.pending_transactions.fetch_add(1, Ordering::Relaxed) + 1;
        if !waiting.is_multiple_of(CHECKPOINT_TRANSACTIONS) {
            return;
        }
        if self.thread.is_none() {
            self.thread = start(&self.path, &self.pending_transactions);
        }
        if let Some((wake, _)) = &self.thread {
            let _busy_already = wake.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if let Some((wake, thread)) = self.thread.take() {
            drop(wake);
            let _panicked = thread.join();
        }
    }
}

/// Starts the thread. Without it the log grows until SQLite runs a checkpoint within a commit,
/// which is slower but correct.
fn start(path: &Arc<Path>, waiting: &Arc<AtomicU32>) -> Option<(SyncSender<()>, JoinHandle<()>)> {
    let (wake, woken) = sync_channel(1);
    let (path, waiting) = (Arc::clone(path), Arc::clone(waiting));
    let thread = thread::Builder::new()
        .name("store-checkpoint".to_owned())
        .spawn(move || run(&path, &waiting, &woken))
        .ok()?;
    Some((wake, thread))
}

fn run(path: &Path, waiting: &AtomicU32, woken: &Receiver<()>) {
    let connection = match open::open_existing(path) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::debug!(%error, "the write-ahead log is left to the writer");
            return;
        }
    };
    while woken.recv().is_ok() && wait_for_quiet(waiting, woken) {
        waiting.store(0, Ordering::Relaxed);
        // A passive checkpoint moves the pages that it can without holding up a writer or a reader.
        let moved = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_row| Ok(()));
        if let Err(error) = moved {
            tracing::debug!(%error, "the write-ahead log could not be checkpointed this time");
        }
    }
}

/// Waits for a quiet moment, or until the log is too long. Returns `false` when the store closes:
/// the last connection to close the file empties the log anyway.
fn wait_for_quiet(waiting: &AtomicU32, woken: &Receiver<()>) -> bool {
    loop {
        let before = waiting.load(Ordering::Relaxed);
        if before >= MAX_PENDING_TRANSACTIONS {
            return true;
        }
        match woken.recv_timeout(QUIET_DELAY) {
            Err(RecvTimeoutError::Timeout) if waiting.load(Ordering::Relaxed) == before => {
                return true;
            }
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
