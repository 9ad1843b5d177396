//! Writes lines to stdout, in order: directly while the host keeps up, by a thread when it does
//! not.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::ready::Kind;

/// Limits the bytes that wait for a host that does not read.
const WAITING: usize = 4 * 1024 * 1024;

/// Limits the chunks that wait. They are batches of lines, so only tiny ones reach this limit.
const PIECES: usize = 4096;

/// Limits the answers that wait in addition.
const ANSWERS: usize = 256;

/// Limits the flush markers that wait in addition.
const MARKS: usize = 16;

/// The host no longer reads our stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stdout is closed: the host no longer reads it")]
pub struct Gone;

/// The writing end of stdout. Cheap to clone; all clones write to the same stream.
#[derive(Clone, Debug)]
pub struct Output {
    pieces: mpsc::Sender<Piece>,
    /// Held while a chunk is written or queued, so that no other chunk gets between its two parts.
    saying: Arc<Mutex<()>>,
    stream: Arc<Stream>,
    room: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    gone: CancellationToken,
}

#[derive(Debug)]
struct Stream {
    file: File,
    /// `Some`: the stream can be written to without blocking.
    kind: Option<Kind>,
    /// The number of chunks that the thread has not written yet.
    waiting: AtomicUsize,
}

#[derive(Debug)]
enum Piece {
    Bytes {
        bytes: Vec<u8>,
        _room: OwnedSemaphorePermit,
    },
    /// Reports that everything queued before it has been written.
    Mark(oneshot::Sender<()>),
}

impl Output {
    pub fn open(stream: impl AsFd) -> io::Result<Self> {
        let file = File::from(stream.as_fd().try_clone_to_owned()?);
        let stream =
            Arc::new(Stream { kind: Kind::of(file.as_fd()), file, waiting: AtomicUsize::new(0) });
        let (pieces, waiting) = mpsc::channel(PIECES + ANSWERS + MARKS);
        let gone = CancellationToken::new();
        let (closed, written) = (gone.clone(), Arc::clone(&stream));
        let work = move || {
            if let Err(error) = written.write_waiting(waiting) {
                tracing::debug!(%error, "stdout has been closed");
            }
            closed.cancel();
        };
        std::thread::Builder::new().name("stdout".to_owned()).spawn(work)?;
        Ok(Self {
            pieces,
            saying: Arc::default(),
            stream,
            room: Arc::new(Semaphore::new(WAITING)),
            answers: Arc::new(Semaphore::new(ANSWERS)),
            gone,
        })
    }

    /// Sends whole lines, with their line endings. Waits while the queue is full.
    pub async fn send(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        if bytes.is_empty() {
            return Ok(());
        }
        // A chunk larger than the whole queue takes all its permits. A tiny chunk takes a minimum,
        // so that the number of chunks is limited too.
        let size = bytes.len().clamp(WAITING / PIECES, WAITING);
        self.put(&self.room, size, bytes).await
    }

    /// Sends an answer to the host, in order with everything else, but with permits of its own: a
    /// host that does not read events can still send requests, for example to interrupt.
    pub async fn answer(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        self.put(&self.answers, 1, bytes).await
    }

    async fn put(&self, room: &Arc<Semaphore>, size: usize, bytes: Vec<u8>) -> Result<(), Gone> {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let said = async {
            let room = Arc::clone(room).acquire_many_owned(size);
            let room = room.await.map_err(|_closed| Gone)?;
            self.say(bytes, room)
        };
        self.gone.run_until_cancelled(said).await.unwrap_or(Err(Gone))
    }

    fn say(&self, mut bytes: Vec<u8>, room: OwnedSemaphorePermit) -> Result<(), Gone> {
        let _alone = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.stream.write_now(&bytes);
        if count == bytes.len() {
            return Ok(());
        }
        bytes.drain(..count);
        self.stream.waiting.fetch_add(1, Ordering::Relaxed);
        let piece = Piece::Bytes { bytes, _room: room };
        // The channel is not full: it has a place for every permit, and markers are few.
        self.pieces.try_send(piece).map_err(|_closed| Gone)
    }

    /// Waits until the host no longer reads our stdout.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Waits until everything sent before has been written, at most for `within`.
    pub async fn written(&self, within: Duration) -> Result<(), Gone> {
        let (mark, reached) = oneshot::channel();
        let written = async {
            let sent = self.pieces.send(Piece::Mark(mark)).await;
            sent.map_err(|_closed| Gone)?;
            reached.await.map_err(|_closed| Gone)
        };
        tokio::time::timeout(within, written).await.unwrap_or(Err(Gone))
    }
}

impl Stream {
    /// Writes as much as the stream takes without blocking, if nothing is queued before it.
    fn write_now(&self, bytes: &[u8]) -> usize {
        match self.kind {
            // The counter grows only under the lock that our caller holds. `Acquire` pairs with the
            // `Release` of the thread: a count of 0 means that all its writes are done.
            Some(kind) if self.waiting.load(Ordering::Acquire) == 0 => {
                kind.write_now(self.file.as_fd(), bytes)
            }
            _ => 0,
        }
    }

    fn write_waiting(&self, mut pieces: mpsc::Receiver<Piece>) -> io::Result<()> {
        while let Some(piece) = pieces.blocking_recv() {
            match piece {
                Piece::Bytes { bytes, .. } => {
                    (&self.file).write_all(&bytes)?;
                    self.waiting.fetch_sub(1, Ordering::Release);
                }
                Piece::Mark(reached) => {
                    let _left = reached.send(());
                }
            }
        }
        Ok(())
    }
}
