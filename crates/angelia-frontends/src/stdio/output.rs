//! What we say to the host: a thread writes, in the order in which things were said.

use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Bytes that may wait for a host that does not read.
const WAITING: usize = 4 * 1024 * 1024;

/// Pieces that may; they are batches of lines, so this is reached by tiny ones only.
const PIECES: usize = 4096;

/// Answers that may, besides.
const ANSWERS: usize = 256;

/// Nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads what is written to stdout any more")]
pub struct Gone;

/// Cheap to clone; all clones write to the same stream.
#[derive(Clone, Debug)]
pub struct Output {
    pieces: mpsc::Sender<Piece>,
    room: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    gone: CancellationToken,
}

enum Piece {
    Bytes {
        bytes: Vec<u8>,
        _room: OwnedSemaphorePermit,
    },
    /// Everything said before has been written.
    Mark(oneshot::Sender<()>),
}

impl Output {
    pub fn open(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (pieces, waiting) = mpsc::channel(PIECES + ANSWERS);
        let gone = CancellationToken::new();
        let closed = gone.clone();
        let work = move || {
            if let Err(error) = write(sink, waiting) {
                tracing::debug!(%error, "stdout has been closed");
            }
            closed.cancel();
        };
        std::thread::Builder::new()
            .name("stdout".to_owned())
            .spawn(work)?;
        Ok(Self {
            pieces,
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
            let piece = Piece::Bytes { bytes, _room: room };
            self.pieces.send(piece).await.map_err(|_closed| Gone)
        };
        self.gone
            .run_until_cancelled(said)
            .await
            .unwrap_or(Err(Gone))
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
        tokio::time::timeout(within, written)
            .await
            .unwrap_or(Err(Gone))
    }
}

fn write(mut sink: impl Write, mut pieces: mpsc::Receiver<Piece>) -> io::Result<()> {
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::Bytes { bytes, .. } => {
                sink.write_all(&bytes)?;
                if pieces.is_empty() {
                    sink.flush()?;
                }
            }
            Piece::Mark(reached) => {
                sink.flush()?;
                let _left = reached.send(());
            }
        }
    }
    sink.flush()
}
