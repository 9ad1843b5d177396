//! What we say to the host, in the order in which things were said: on the spot while the host
//! keeps up, by a thread when it does not.

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

/// Bytes that may wait for a host that does not read.
const WAITING: usize = 4 * 1024 * 1024;

/// Pieces that may; they are batches of lines, so this is reached by tiny ones only.
const PIECES: usize = 4096;

/// Answers that may, besides.
const ANSWERS: usize = 256;

/// Marks that may, besides.
const MARKS: usize = 16;

/// Nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads what is written to stdout any more")]
pub struct Gone;

/// Cheap to clone; all clones write to the same stream.
#[derive(Clone, Debug)]
pub struct Output {
    pieces: mpsc::Sender<Piece>,
    /// Held while something is said, so that nobody else's words come between its halves.
    saying: Arc<Mutex<()>>,
    stream: Arc<Stream>,
    room: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    gone: CancellationToken,
}

#[derive(Debug)]
struct Stream {
    file: File,
    /// It can be asked whether it takes something.
    kind: Option<Kind>,
    /// Pieces that the thread has not written yet.
    waiting: AtomicUsize,
}

#[derive(Debug)]
enum Piece {
    Bytes {
        bytes: Vec<u8>,
        _room: OwnedSemaphorePermit,
    },
    /// Everything said before has been written.
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

    /// Says something: whole lines, with their ends. Waits while too much waits to be read.
    pub async fn send(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        if bytes.is_empty() {
            return Ok(());
        }
        // What is larger than all the room there is takes all of it, and tiny pieces count too.
        let size = bytes.len().clamp(WAITING / PIECES, WAITING);
        self.put(&self.room, size, bytes).await
    }

    /// Answers the host, in order with everything else, but not held up by what is said besides:
    /// a host that does not read can still ask to be left alone.
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
        // It is not full: whoever has room has a place, and marks are few.
        self.pieces.try_send(piece).map_err(|_closed| Gone)
    }

    /// Resolves when nobody reads any more.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Waits until everything that was said before has been written, but no longer than this.
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
    /// Writes what the host takes at once, if nothing waits before it.
    fn write_now(&self, bytes: &[u8]) -> usize {
        match self.kind {
            // Whoever adds to those that wait holds the lock that our caller holds; and that a
            // piece has been written is seen here after it was.
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
