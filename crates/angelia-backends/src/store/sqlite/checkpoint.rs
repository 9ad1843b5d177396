//! Moves what was committed from the log into the database, on a thread of its own: a checkpoint
//! waits for the disk, and no commit should.

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use super::open;

/// How many transactions may pile up in the log before it is emptied: about as much as SQLite
/// itself would let.
const EVERY: u32 = 256;

/// Started when it is first needed: a single command never needs it.
pub(super) struct Checkpointer {
    path: Arc<Path>,
    since: u32,
    running: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Checkpointer {
    pub(super) const fn new(path: Arc<Path>) -> Self {
        Self {
            path,
            since: 0,
            running: None,
        }
    }

    /// Notes a transaction; now and then wakes the thread, and never waits for it.
    pub(super) fn committed(&mut self) {
        self.since += 1;
        if self.since < EVERY {
            return;
        }
        self.since = 0;
        if self.running.is_none() {
            self.running = start(&self.path);
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
fn start(path: &Arc<Path>) -> Option<(SyncSender<()>, JoinHandle<()>)> {
    let (wake, woken) = sync_channel(1);
    let path = Arc::clone(path);
    let thread = thread::Builder::new()
        .name("store-checkpoint".to_owned())
        .spawn(move || run(&path, &woken))
        .ok()?;
    Some((wake, thread))
}

fn run(path: &Path, woken: &Receiver<()>) {
    let connection = match open::existing(path) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::debug!(%error, "the log is left to the writer");
            return;
        }
    };
    while woken.recv().is_ok() {
        // Passive: it takes what it can without holding up a writer or a reader.
        let moved = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_row| Ok(()));
        if let Err(error) = moved {
            tracing::debug!(%error, "the log was not emptied this time");
        }
    }
}
