//! Reads lines from stdin. A pipe is read asynchronously. Any other stream is read by a thread,
//! because making it non-blocking would affect other processes that share it.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::AsFd,
};

use angelia_wire::ndjson::{Frame, Framer};
use bytes::BufMut as _;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::{io::AsyncReadExt as _, net::unix::pipe, sync::mpsc};

use super::ready::Kind;

/// Limits the lines that wait for us. Few, because a fast host can wait in its own pipe.
const WAITING: usize = 4;

/// The size of one read.
const READ: usize = 64 * 1024;

/// One line from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its line ending; never empty.
    Whole(Vec<u8>),
    /// The line was over the limit and was skipped.
    TooLong { bytes: usize, head: Vec<u8> },
    /// The stream ended in the middle of the line.
    Partial(Vec<u8>),
}

impl From<Frame<'_>> for Line {
    fn from(frame: Frame<'_>) -> Self {
        match frame {
            Frame::Line(line) => Self::Whole(line.to_owned()),
            Frame::TooLong { bytes, head } => Self::TooLong { bytes, head: head.to_owned() },
            Frame::Partial(line) => Self::Partial(line.to_owned()),
        }
    }
}

#[derive(Debug)]
pub struct Input(Source);

#[derive(Debug)]
enum Source {
    Pipe(Box<Pipe>),
    Thread(mpsc::Receiver<Line>),
}

/// A pipe. Our end is separate from the host's, so it can be made non-blocking.
#[derive(Debug)]
struct Pipe {
    stream: pipe::Receiver,
    read: Read,
}

/// The bytes that have been read and not returned as lines.
#[derive(Debug)]
struct Read {
    framer: Framer,
    piece: Vec<u8>,
    is_over: bool,
}

impl Input {
    /// Opens a stream for lines of at most `limit` bytes. Must be called within a Tokio runtime. If
    /// a thread reads the stream, it may stay blocked in a read until the process ends.
    pub fn open(stream: impl AsFd, limit: usize) -> io::Result<Self> {
        let stream = File::from(stream.as_fd().try_clone_to_owned()?);
        let read = Read::new(limit);
        if Kind::of(stream.as_fd()) == Some(Kind::Pipe) {
            let stream = pipe::Receiver::from_file(stream)?;
            return Ok(Self(Source::Pipe(Box::new(Pipe { stream, read }))));
        }
        let (sender, lines) = mpsc::channel(WAITING);
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || read_to_end(stream, read, &sender))?;
        Ok(Self(Source::Thread(lines)))
    }

    /// Returns the next line. `None`: the stream has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Line> {
        match &mut self.0 {
            Source::Pipe(pipe) => pipe.next().await,
            Source::Thread(lines) => lines.recv().await,
        }
    }
}

impl Pipe {
    async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.read.line() {
                return Some(line);
            }
            if self.read.is_over {
                return None;
            }
            let count = self.stream.read(&mut self.read.piece).await;
            self.read.take(count);
        }
    }
}

impl Drop for Pipe {
    /// Makes the pipe blocking again, as the next process that reads it expects.
    fn drop(&mut self) {
        if let Ok(flags) = fcntl_getfl(&self.stream) {
            let _as_it_is = fcntl_setfl(&self.stream, flags.difference(OFlags::NONBLOCK));
        }
    }
}

impl Read {
    fn new(limit: usize) -> Self {
        Self { framer: Framer::new(limit), piece: vec![0; READ], is_over: false }
    }

    fn line(&mut self) -> Option<Line> {
        let frame = if self.is_over { self.framer.finish() } else { self.framer.next() };
        frame.map(Line::from)
    }

    fn take(&mut self, count: io::Result<usize>) {
        match count {
            Ok(0) => self.is_over = true,
            Ok(count) => self.framer.buffer().put_slice(&self.piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot read stdin any more");
                self.is_over = true;
            }
        }
    }
}

fn read_to_end(mut stream: File, mut read: Read, lines: &mpsc::Sender<Line>) {
    loop {
        while let Some(line) = read.line() {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
        if read.is_over {
            return;
        }
        let count = stream.read(&mut read.piece);
        read.take(count);
    }
}
