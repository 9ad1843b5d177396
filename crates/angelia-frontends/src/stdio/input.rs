//! Reads lines from stdin. A pipe is read asynchronously. A thread reads any other stream, because
//! making it non-blocking would affect other processes that share it.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::AsFd,
};

use angelia_wire::ndjson::{Frame, Framer};
use bytes::BufMut as _;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::{io::AsyncReadExt as _, net::unix::pipe, sync::mpsc};

use super::nonblocking::StreamKind;

/// The limit on lines that wait for us. It is low, because a fast host can wait in its own pipe.
const MAX_QUEUED_LINES: usize = 4;

/// The size of one read.
const READ_BYTES: usize = 64 * 1024;

/// One line from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputLine {
    /// Without its line ending; never empty.
    Whole(Vec<u8>),
    /// The line exceeded the limit and was skipped.
    TooLong { bytes: usize, head: Vec<u8> },
    /// The stream ended in the middle of the line.
    Partial(Vec<u8>),
}

impl From<Frame<'_>> for InputLine {
    fn from(frame: Frame<'_>) -> Self {
        match frame {
            Frame::Line(line) => Self::Whole(line.to_owned()),
            Frame::TooLong { bytes, head } => Self::TooLong { bytes, head: head.to_owned() },
            Frame::Partial(line) => Self::Partial(line.to_owned()),
        }
    }
}

#[derive(Debug)]
pub struct StdioInput(InputSource);

#[derive(Debug)]
enum InputSource {
    Pipe(Box<PipeReader>),
    Thread(mpsc::Receiver<InputLine>),
}

/// A pipe. Our end is separate from the host's, so it can be made non-blocking.
#[derive(Debug)]
struct PipeReader {
    stream: pipe::Receiver,
    lines: LineReader,
}

/// The bytes that were read but not returned as lines yet.
#[derive(Debug)]
struct LineReader {
    framer: Framer,
    buffer: Vec<u8>,
    is_eof: bool,
}

impl StdioInput {
    /// Opens a stream for lines of at most `limit` bytes. Must be called within a Tokio runtime. If
    /// a thread reads the stream, it may stay blocked in a read until the process ends.
    pub fn open(stream: impl AsFd, limit: usize) -> io::Result<Self> {
        let stream = File::from(stream.as_fd().try_clone_to_owned()?);
        let read = LineReader::new(limit);
        if StreamKind::of(stream.as_fd()) == Some(StreamKind::Pipe) {
            let stream = pipe::Receiver::from_file(stream)?;
            return Ok(Self(InputSource::Pipe(Box::new(PipeReader { stream, lines: read }))));
        }
        let (sender, lines) = mpsc::channel(MAX_QUEUED_LINES);
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || read_lines(stream, read, &sender))?;
        Ok(Self(InputSource::Thread(lines)))
    }

    /// Returns the next line, or `None` once the stream has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<InputLine> {
        match &mut self.0 {
            InputSource::Pipe(pipe) => pipe.next().await,
            InputSource::Thread(lines) => lines.recv().await,
        }
    }
}

impl PipeReader {
    async fn next(&mut self) -> Option<InputLine> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Some(line);
            }
            if self.lines.is_eof {
                return None;
            }
            let count = self.stream.read(&mut self.lines.buffer).await;
            self.lines.push_read(count);
        }
    }
}

impl Drop for PipeReader {
    /// Makes the pipe blocking again, as the next process that reads it expects.
    fn drop(&mut self) {
        if let Ok(flags) = fcntl_getfl(&self.stream) {
            let _as_it_is = fcntl_setfl(&self.stream, flags.difference(OFlags::NONBLOCK));
        }
    }
}

impl LineReader {
    fn new(limit: usize) -> Self {
        Self { framer: Framer::new(limit), buffer: vec![0; READ_BYTES], is_eof: false }
    }

    fn next_line(&mut self) -> Option<InputLine> {
        let frame = if self.is_eof { self.framer.finish() } else { self.framer.next() };
        frame.map(InputLine::from)
    }

    fn push_read(&mut self, count: io::Result<usize>) {
        match count {
            Ok(0) => self.is_eof = true,
            Ok(count) => self.framer.buffer().put_slice(&self.buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot read stdin any more");
                self.is_eof = true;
            }
        }
    }
}

fn read_lines(mut stream: File, mut read: LineReader, lines: &mpsc::Sender<InputLine>) {
    loop {
        while let Some(line) = read.next_line() {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
        if read.is_eof {
            return;
        }
        let count = stream.read(&mut read.buffer);
        read.push_read(count);
    }
}
