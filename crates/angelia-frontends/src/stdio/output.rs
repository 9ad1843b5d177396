//! Writes lines to stdout, in order: directly while the host keeps up, otherwise through a thread.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::nonblocking::StreamKind;

/// The limit on bytes that wait for a host that does not read.
const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;

/// The limit on waiting chunks. Chunks are batches of lines, so only tiny ones reach this limit.
const MAX_QUEUED_CHUNKS: usize = 4096;

/// The limit on answers that wait in addition.
const MAX_QUEUED_ANSWERS: usize = 256;

/// The limit on flush markers that wait in addition.
const MAX_QUEUED_MARKERS: usize = 16;

/// The host no longer reads our stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stdout is closed: the host no longer reads it")]
pub struct OutputClosed;

/// The writing end of stdout. Cheap to clone; all clones write to the same stream.
#[derive(Clone, Debug)]
pub struct StdioOutput {
    chunks: mpsc::Sender<OutputChunk>,
    /// Held while a chunk is written or queued, so that no other chunk gets between its two parts.
    write_lock: Arc<Mutex<()>>,
    stream: Arc<OutputStream>,
    byte_permits: Arc<Semaphore>,
    answer_permits: Arc<Semaphore>,
    closed: CancellationToken,
}

#[derive(Debug)]
struct OutputStream {
    file: File,
    /// `Some` if the stream can be written to without blocking.
    kind: Option<StreamKind>,
    /// The number of chunks that the thread has not written yet.
    queued_chunks: AtomicUsize,
    /// The error that made us give up on the stream.
    error: Mutex<Option<io::Error>>,
}

#[derive(Debug)]
enum OutputChunk {
    Bytes {
        bytes: Vec<u8>,
        _permit: OwnedSemaphorePermit,
    },
    /// Reports that everything queued before it has been written.
    FlushMarker(oneshot::Sender<()>),
}

impl StdioOutput {
    pub fn open(stream: impl AsFd) -> io::Result<Self> {
        let file = File::from(stream.as_fd().try_clone_to_owned()?);
        let stream = Arc::new(OutputStream {
            kind: StreamKind::of(file.as_fd()),
            file,
            queued_chunks: AtomicUsize::new(0),
            error: Mutex::default(),
        });
        let (pieces, mut waiting) =
            mpsc::channel(MAX_QUEUED_CHUNKS + MAX_QUEUED_ANSWERS + MAX_QUEUED_MARKERS);
        let gone = CancellationToken::new();
        let (closed, written) = (gone.clone(), Arc::clone(&stream));
        let work = move || {
            if let Err(error) = written.write_queued(&mut waiting) {
                tracing::debug!(%error, "stdout has been closed");
                *written.error.lock() = Some(error);
            }
            closed.cancel();
        };
        std::thread::Builder::new().name("stdout".to_owned()).spawn(work)?;
        Ok(Self {
            chunks: pieces,
            write_lock: Arc::default(),
            stream,
            byte_permits: Arc::new(Semaphore::new(MAX_QUEUED_BYTES)),
            answer_permits: Arc::new(Semaphore::new(MAX_QUEUED_ANSWERS)),
            closed: gone,
        })
    }

    /// Sends whole lines, with their line endings. Waits while the queue is full.
    pub async fn send(&self, bytes: Vec<u8>) -> Result<(), OutputClosed> {
        if bytes.is_empty() {
            return Ok(());
        }
        // A chunk larger than the whole queue takes all its permits. A tiny chunk takes a minimum,
        // so that the number of chunks is limited too.
        let size = bytes.len().clamp(MAX_QUEUED_BYTES / MAX_QUEUED_CHUNKS, MAX_QUEUED_BYTES);
        self.send_with_permits(&self.byte_permits, size, bytes).await
    }

    /// Sends an answer to the host, in order with everything else, but with separate permits: a
    /// host that does not read events can still send requests, for example to interrupt.
    pub async fn send_answer(&self, bytes: Vec<u8>) -> Result<(), OutputClosed> {
        self.send_with_permits(&self.answer_permits, 1, bytes).await
    }

    async fn send_with_permits(
        &self,
        room: &Arc<Semaphore>,
        size: usize,
        bytes: Vec<u8>,
    ) -> Result<(), OutputClosed> {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let said = async {
            let room = Arc::clone(room).acquire_many_owned(size);
            let room = room.await.map_err(|_closed| OutputClosed)?;
            self.write_or_queue(bytes, room)
        };
        self.closed.run_until_cancelled(said).await.unwrap_or(Err(OutputClosed))
    }

    fn write_or_queue(
        &self,
        mut bytes: Vec<u8>,
        room: OwnedSemaphorePermit,
    ) -> Result<(), OutputClosed> {
        let _alone = self.write_lock.lock();
        let count = self.stream.write_now(&bytes);
        if count == bytes.len() {
            return Ok(());
        }
        bytes.drain(..count);
        self.stream.queued_chunks.fetch_add(1, Ordering::Relaxed);
        let piece = OutputChunk::Bytes { bytes, _permit: room };
        // The channel cannot be full: it has a place for every permit, and markers are few.
        self.chunks.try_send(piece).map_err(|_closed| OutputClosed)
    }

    /// Waits until the host no longer reads our stdout.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Returns, once, the error that made us give up on the stream.
    pub fn take_error(&self) -> Option<io::Error> {
        self.stream.error.lock().take()
    }

    /// Waits until everything sent so far has been written, but at most for `within`.
    pub async fn flush(&self, within: Duration) -> Result<(), OutputClosed> {
        let (mark, reached) = oneshot::channel();
        let written = async {
            let sent = self.chunks.send(OutputChunk::FlushMarker(mark)).await;
            sent.map_err(|_closed| OutputClosed)?;
            reached.await.map_err(|_closed| OutputClosed)
        };
        tokio::time::timeout(within, written).await.unwrap_or(Err(OutputClosed))
    }
}

impl OutputStream {
    /// Writes as much as the stream accepts without blocking, if nothing is queued before it.
    fn write_now(&self, bytes: &[u8]) -> usize {
        match self.kind {
            // The counter grows only under the lock that our caller holds. `Acquire` pairs with the
            // `Release` of the thread: a count of 0 means that all its writes are done.
            Some(kind) if self.queued_chunks.load(Ordering::Acquire) == 0 => {
                kind.write_now(self.file.as_fd(), bytes)
            }
            _ => 0,
        }
    }

    fn write_queued(&self, pieces: &mut mpsc::Receiver<OutputChunk>) -> io::Result<()> {
        while let Some(piece) = pieces.blocking_recv() {
            match piece {
                OutputChunk::Bytes { bytes, .. } => {
                    (&self.file).write_all(&bytes)?;
                    self.queued_chunks.fetch_sub(1, Ordering::Release);
                }
                OutputChunk::FlushMarker(reached) => {
                    let _left = reached.send(());
                }
            }
        }
        Ok(())
    }
}
