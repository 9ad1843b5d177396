//! The bus on this machine's disk: a log of segments, written by one thread in groups.
//!
//! - `record`: the byte form of one record; `segment`: one file of the log; `segment_allocator`:
//!   makes the next file; `log`: the whole log, as the writer sees it.
//! - `write_queue`, `writer`: from a published message to the disk; `reclaim`: frees disk space.
//! - `recover`: reads the log at start; `endpoint_file`: the records of the endpoints.

mod inlet;
mod log;
mod names;
mod reclaim;
mod record;
mod recover;
mod segment;
mod supply;
mod writer;

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use angelia_core::{
    model::{EndpointName, bus::Message},
    ports::{
        BoxFuture, Bus, Clock,
        bus::{BusError, Refusal},
    },
};
use tokio::sync::oneshot;

use self::{inlet::Inlet, log::Log, names::Names, reclaim::Reclaim, writer::Writer};
use super::{
    index::{Index, Place, Standing},
    limits::BusLimits,
    repeats::Repeats,
    shared::{Batch, Keeper, Shared, SharedIndex, lock},
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
        let lock = take_lock(&folder.join("lock")).map_err(failed)?;
        let Some(lock) = lock else {
            return Err(OpenBusError::Held(folder.to_path_buf()));
        };
        let parts = (folder, log_folder.as_path());
        open(parts, limits, clock, lock).map_err(failed)
    }
}

/// Returns the locked file, or `None` if another process holds the lock.
fn take_lock(path: &Path) -> io::Result<Option<File>> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => {
            // The pid is only information for people; the lock is what counts.
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
            Ok(Some(file))
        }
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn open(
    (folder, log_folder): (&Path, &Path),
    limits: BusLimits,
    clock: Arc<dyn Clock>,
    lock: File,
) -> io::Result<Arc<dyn Bus>> {
    let now = clock.now().as_millisecond();
    let window = i64::try_from(limits.dedupe_window.as_millis()).unwrap_or(i64::MAX);
    let mut index = Index::new(limits);
    let (names, known) = Names::open(&folder.join("endpoints.jsonl"))?;
    for (name, standing) in known {
        index.remember(&name, standing);
    }
    let mut recovered = recover::recover(log_folder, &mut index, now.saturating_sub(window))?;
    let mut repeats = Repeats::new(&limits);
    for (message, at) in std::mem::take(&mut recovered.recent) {
        let key = repeats.key(&message);
        repeats.insert(key, at);
    }
    index.expire_all(now);
    let index = Arc::new(Mutex::new(index));
    let inlet = Arc::new(Inlet::new());
    let writer = Writer {
        inlet: Arc::clone(&inlet),
        index: Arc::clone(&index),
        clock: Arc::clone(&clock),
        limits,
        next: recovered.next_position,
        log: Log::open(log_folder, recovered)?,
        repeats,
        reclaim: Reclaim::default(),
    };
    let thread = std::thread::Builder::new().name("bus-writer".to_owned()).spawn(move || {
        writer.run();
        // Released only now: another process must not open the log while this one writes.
        drop(lock);
    })?;
    let keeper = Kept {
        inlet,
        index: Arc::clone(&index),
        names,
        folder: log_folder.to_path_buf(),
        thread: Mutex::new(Some(thread)),
    };
    Ok(Arc::new(Shared { index, keeper: Arc::new(keeper), clock }))
}

struct Kept {
    inlet: Arc<Inlet>,
    index: SharedIndex,
    names: Names,
    folder: PathBuf,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Kept {
    /// Answers a batch that came after the bus was closed.
    fn refuse(&self, batch: Batch) {
        let mut index = lock(&self.index);
        let refused = batch.outgoing.into_iter().map(|outgoing| {
            index.unreserve(&outgoing.targets);
            Err(Refusal::Storage(BusError::Closed))
        });
        let refused = refused.collect();
        drop(index);
        let _sender_gone = batch.reply.send(refused);
    }
}

impl Keeper for Kept {
    fn store(&self, batch: Batch) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(batch) = self.inlet.push(batch).await {
                self.refuse(batch);
            }
        })
    }

    fn done(&self, positions: Vec<u64>) {
        self.inlet.done(positions);
    }

    fn dead(&self, position: u64, at: i64, reason: &str) {
        self.inlet.dead(position, at, reason);
    }

    fn read(&self, places: &[(u64, Place)]) -> io::Result<Vec<(u64, Message)>> {
        recover::read_at(&self.folder, places)
    }

    fn remember(&self, name: &EndpointName, standing: &Standing) -> io::Result<()> {
        self.names.remember(name, standing)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let (sender, closed) = oneshot::channel();
            self.inlet.close(Some(sender));
            let _writer_gone = closed.await;
        })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.inlet.close(None);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _panicked = thread.join();
        }
    }
}
