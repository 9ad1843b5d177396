//! What the host says: a thread reads, and passes on whole lines.

use std::io::{self, Read};

use angelia_wire::ndjson::{Frame, Framer};
use bytes::BufMut as _;
use tokio::sync::mpsc;

/// Lines that may wait for us. Few: a host that is ahead waits in its own pipe.
const WAITING: usize = 4;

/// Bytes of one read.
const READ: usize = 64 * 1024;

/// One line of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its end; never empty.
    Whole(Vec<u8>),
    /// It was longer than it may be, and has been skipped.
    TooLong { bytes: usize, head: Vec<u8> },
    /// The stream ended in the middle of it.
    Partial(Vec<u8>),
}

impl From<Frame<'_>> for Line {
    fn from(frame: Frame<'_>) -> Self {
        match frame {
            Frame::Line(line) => Self::Whole(line.to_owned()),
            Frame::TooLong { bytes, head } => Self::TooLong {
                bytes,
                head: head.to_owned(),
            },
            Frame::Partial(line) => Self::Partial(line.to_owned()),
        }
    }
}

#[derive(Debug)]
pub struct Input {
    lines: mpsc::Receiver<Line>,
}

impl Input {
    /// Reads lines of at most `limit` bytes until the stream ends. The thread stays with a read
    /// that nobody answers until the process ends.
    pub fn open(source: impl Read + Send + 'static, limit: usize) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(WAITING);
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || read(source, limit, &sender))?;
        Ok(Self { lines })
    }

    /// The next line; `None`: there are no more. Cancel safe.
    pub async fn next(&mut self) -> Option<Line> {
        self.lines.recv().await
    }
}

fn read(mut source: impl Read, limit: usize, lines: &mpsc::Sender<Line>) {
    let mut framer = Framer::new(limit);
    let mut piece = vec![0; READ];
    loop {
        match source.read(&mut piece) {
            Ok(count @ 1..) => framer.buffer().put_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) => break,
            Err(error) => {
                tracing::warn!(%error, "stdin cannot be read any more");
                break;
            }
        }
        while let Some(frame) = framer.next() {
            if lines.blocking_send(frame.into()).is_err() {
                return;
            }
        }
    }
    while let Some(frame) = framer.finish() {
        if lines.blocking_send(frame.into()).is_err() {
            return;
        }
    }
}
