//! Writes to pipes and sockets without blocking.
//!
//! The descriptors stay in blocking mode, because `O_NONBLOCK` would affect every process that
//! inherited them.

use std::os::fd::BorrowedFd;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
    net::{SendFlags, send},
};

/// A pipe that polls as writable accepts this many bytes (`PIPE_BUF`) without blocking.
const PIPE_BUF_BYTES: usize = 4096;

/// The thread does larger writes: in such small parts, they would need too many calls.
const MAX_DIRECT_BYTES: usize = 4 * PIPE_BUF_BYTES;

/// A stream that can be written to without blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    Pipe,
    Socket,
}

impl StreamKind {
    /// Returns `None` for a file or a terminal, which other processes read and write too.
    pub(super) fn of(stream: BorrowedFd<'_>) -> Option<Self> {
        match FileType::from_raw_mode(fstat(stream).ok()?.st_mode) {
            FileType::Fifo => Some(Self::Pipe),
            FileType::Socket => Some(Self::Socket),
            _ => None,
        }
    }

    /// Writes as much as possible without blocking, and returns the number of bytes. Ignores
    /// errors, because the next write reports them again.
    pub(super) fn write_now(self, stream: BorrowedFd<'_>, bytes: &[u8]) -> usize {
        match self {
            Self::Pipe if bytes.len() > MAX_DIRECT_BYTES => 0,
            Self::Pipe => {
                let written = (bytes.chunks(PIPE_BUF_BYTES))
                    .take_while(|_| is_writable(stream))
                    .map_while(|piece| rustix::io::write(stream, piece).ok());
                written.sum()
            }
            Self::Socket => send(stream, bytes, SendFlags::DONTWAIT).unwrap_or(0),
        }
    }
}

fn is_writable(stream: BorrowedFd<'_>) -> bool {
    let mut streams = [PollFd::from_borrowed_fd(stream, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut streams, Some(&now)), Ok(1..))
}
