//! The bus on this machine's disk: a log of segments, written by one thread in groups.
//!
//! - `record`: the byte form of one record; `segment`: one file of the log; `segment_allocator`:
//!   makes the next file; `log`: the whole log, as the writer sees it.
//! - `write_queue`, `writer`: from a published message to the disk; `reclaim`: frees disk space.
//! - `recover`: reads the log at start; `endpoint_file`: the records of the endpoints.

mod endpoint_file;
mod log;
mod reclaim;
mod record;
mod recover;
mod segment;
mod segment_allocator;
mod write_queue;
mod writer;

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
};

use angelia_core::{
    model::{EndpointName, bus::BusMessage},
    ports::{
        Bus, Clock,
        bus::{BusError, PublishError},
    },
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::{
    endpoint_file::EndpointFile, log::MessageLog, reclaim::ReclaimState, write_queue::WriteQueue,
    writer::LogWriter,
};
use super::{
    bus_core::{BusCore, PublishBatch, SharedIndex},
    dedupe::{DedupeFilter, hash_body},
    index::{BusIndex, EndpointRecord, LogLocation},
    limits::BusLimits,
};

#[derive(Debug, thiserror::Error)]
pub enum OpenBusError {
    #[error(
        "the bus in {} is in use by another process; stop that one (`angelia bus stop`), \
         or choose another home",
        .0.display()
    )]
    Held(PathBuf),
    #[error("cannot open the bus in {}: {source}; check the folder and the disk", .folder.display())]
    Failed { folder: PathBuf, source: io::Error },
}

/// A bus in a folder, `<home>/bus`, which one process at a time can open.
#[derive(Debug)]
pub struct LocalBus;

impl LocalBus {
    /// Opens the bus and reads the whole log, which blocks.
    pub fn open(
        folder: &Path,
        limits: BusLimits,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<dyn Bus>, OpenBusError> {
        let failed = |source| OpenBusError::Failed { folder: folder.to_path_buf(), source };
        let log_folder = folder.join("log");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&log_folder);
        made.map_err(failed)?;
        let lock = try_lock_file(&folder.join("lock")).map_err(failed)?;
        let Some(lock) = lock else {
            return Err(OpenBusError::Held(folder.to_path_buf()));
        };
        let parts = (folder, log_folder.as_path());
        open_locked(parts, limits, clock, lock).map_err(failed)
    }
}

/// Returns the locked file, or `None` if another process holds the lock.
fn try_lock_file(path: &Path) -> io::Result<Option<File>> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => {
            // The pid only informs people; the lock decides.
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
            Ok(Some(file))
        }
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn open_locked(
    (folder, log_folder): (&Path, &Path),
    limits: BusLimits,
    clock: Arc<dyn Clock>,
    lock: File,
) -> io::Result<Arc<dyn Bus>> {
    let now = clock.now().as_millisecond();
    let window = i64::try_from(limits.dedupe_window.as_millis()).unwrap_or(i64::MAX);
    let mut index = BusIndex::new(limits);
    let (names, known) = EndpointFile::open(&folder.join("endpoints.jsonl"))?;
    for (name, standing) in known {
        index.restore_record(&name, standing);
    }
    let mut recovered = recover::recover(log_folder, &mut index, now.saturating_sub(window))?;
    let mut repeats = DedupeFilter::new(&limits);
    for (message, at) in std::mem::take(&mut recovered.recent) {
        let key = repeats.hash_message(&message);
        repeats.insert(key, hash_body(&message), at);
    }
    index.expire_all(now);
    let index = Arc::new(Mutex::new(index));
    let write_queue = Arc::new(WriteQueue::new());
    let writer = LogWriter {
        write_queue: Arc::clone(&write_queue),
        index: Arc::clone(&index),
        clock: Arc::clone(&clock),
        limits,
        next_position: recovered.next_position,
        log: MessageLog::open(log_folder, recovered)?,
        dedupe: repeats,
        reclaim_state: ReclaimState::default(),
    };
    let thread = std::thread::Builder::new().name("bus-writer".to_owned()).spawn(move || {
        writer.run();
        // Released only now: another process must not open the log while this one writes.
        drop(lock);
    })?;
    let storage = LogStorage {
        write_queue,
        index: Arc::clone(&index),
        endpoint_file: names,
        log_folder: log_folder.to_path_buf(),
        thread: Mutex::new(Some(thread)),
    };
    Ok(Arc::new(BusCore { index, storage: Arc::new(storage), clock }))
}

/// Stores messages in the log, through the writer's thread.
pub(super) struct LogStorage {
    write_queue: Arc<WriteQueue>,
    index: SharedIndex,
    endpoint_file: EndpointFile,
    log_folder: PathBuf,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LogStorage {
    /// Answers a batch that came after the bus was closed.
    fn refuse_batch(&self, batch: PublishBatch) {
        let mut index = self.index.lock();
        let refused = batch.messages.into_iter().map(|outgoing| {
            index.unreserve(&outgoing.targets);
            Err(PublishError::Storage(BusError::Closed))
        });
        let refused = refused.collect();
        drop(index);
        let _sender_gone = batch.reply.send(refused);
    }

    /// Queues messages in order, waiting for room. The receipts are sent to the batch's `reply`
    /// when the messages are stored.
    pub(super) async fn store(&self, batch: PublishBatch) {
        if let Err(batch) = self.write_queue.push(batch).await {
            self.refuse_batch(batch);
        }
    }

    /// Notes that these messages need not be stored any longer.
    pub(super) fn mark_done(&self, positions: Vec<u64>) {
        self.write_queue.push_done(positions);
    }

    /// Notes that a message has become a dead letter.
    pub(super) fn mark_dead(&self, position: u64, at: i64, reason: &str) {
        self.write_queue.push_dead(position, at, reason);
    }

    /// Reads messages from disk. Blocks. Leaves out messages that are damaged or missing.
    pub(super) fn read(&self, places: &[(u64, LogLocation)]) -> io::Result<Vec<(u64, BusMessage)>> {
        recover::read_messages(&self.log_folder, places)
    }

    pub(super) fn save_endpoint(
        &self,
        name: &EndpointName,
        record: &EndpointRecord,
    ) -> io::Result<()> {
        self.endpoint_file.append(name, record)
    }

    pub(super) async fn close(&self) {
        let (sender, closed) = oneshot::channel();
        self.write_queue.close(Some(sender));
        let _writer_gone = closed.await;
    }
}

impl Drop for LogStorage {
    fn drop(&mut self) {
        self.write_queue.close(None);
        let thread = self.thread.get_mut().take();
        if let Some(thread) = thread {
            let _panicked = thread.join();
        }
    }
}
