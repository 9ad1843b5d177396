//! Moves what was committed from the log into the database, on a thread of its own: a checkpoint
//! waits for the disk, and no commit should. While it does, commits wait too (some of them for
//! several milliseconds), so it is left for a moment in which nobody writes, as long as the log is
//! not too long.

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

/// How many transactions are worth a checkpoint: about as many as SQLite itself would let pile up.
const WORTH: u32 = 256;

/// How many may pile up before it is done beside others: about half of what a commit itself would
/// have to empty.
const MOST: u32 = 1024;

/// Nobody writes for so long.
const QUIET: Duration = Duration::from_millis(200);

/// Started when it is first needed: a single command never needs it.
pub(super) struct Checkpointer {
    path: Arc<Path>,
    /// Transactions in the log.
    waiting: Arc<AtomicU32>,
    running: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Checkpointer {
    pub(super) fn new(path: Arc<Path>) -> Self {
        Self { path, waiting: Arc::default(), running: None }
    }

    /// Notes a transaction; now and then wakes the thread, and never waits for it.
    pub(super) fn committed(&mut self) {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        if !waiting.is_multiple_of(WORTH) {
            return;
        }
        if self.running.is_none() {
            self.running = start(&self.path, &self.waiting);
        }
        if let Some((wake, _)) = &self.running {
            let _busy_already = wake.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if let Some((wake, thread)) = self.running.take() {
            drop(wake);
            let _panicked = thread.join();
        }
    }
}

/// Without it the log grows until SQLite empties it within a commit: slower, not wrong.
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
    let connection = match open::existing(path) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::debug!(%error, "the log is left to the writer");
            return;
        }
    };
    while woken.recv().is_ok() && wait_for_quiet(waiting, woken) {
        waiting.store(0, Ordering::Relaxed);
        // Passive: it takes what it can without holding up a writer or a reader.
        let moved = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_row| Ok(()));
        if let Err(error) = moved {
            tracing::debug!(%error, "the log was not emptied this time");
        }
    }
}

/// `false`: nobody will write any more, and whoever closes the file last empties the log.
fn wait_for_quiet(waiting: &AtomicU32, woken: &Receiver<()>) -> bool {
    loop {
        let before = waiting.load(Ordering::Relaxed);
        if before >= MOST {
            return true;
        }
        match woken.recv_timeout(QUIET) {
            Err(RecvTimeoutError::Timeout) if waiting.load(Ordering::Relaxed) == before => {
                return true;
            }
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
