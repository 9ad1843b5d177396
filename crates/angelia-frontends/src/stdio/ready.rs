//! What a stream is, and how to write to it without waiting for whoever reads it.
//!
//! What is written to stays as it is: a descriptor that is set not to block would be so for
//! everybody who has inherited it.

use std::os::fd::BorrowedFd;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
    net::{SendFlags, send},
};

/// What a pipe that takes anything takes whole.
const WHOLE: usize = 4096;

/// What is worth being written in so small pieces.
const FEW: usize = 4 * WHOLE;

/// A stream that can be asked whether it takes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pipe,
    Socket,
}

impl Kind {
    /// `None`: a file, or a terminal, which others read and write too.
    pub(super) fn of(stream: BorrowedFd<'_>) -> Option<Self> {
        match FileType::from_raw_mode(fstat(stream).ok()?.st_mode) {
            FileType::Fifo => Some(Self::Pipe),
            FileType::Socket => Some(Self::Socket),
            _ => None,
        }
    }

    /// Writes what can be written without waiting; returns how much that was. What goes wrong is
    /// left to whoever writes the rest.
    pub(super) fn write_now(self, stream: BorrowedFd<'_>, bytes: &[u8]) -> usize {
        match self {
            Self::Pipe if bytes.len() > FEW => 0,
            Self::Pipe => {
                let written = (bytes.chunks(WHOLE))
                    .take_while(|_| takes_something(stream))
                    .map_while(|piece| rustix::io::write(stream, piece).ok());
                written.sum()
            }
            Self::Socket => send(stream, bytes, SendFlags::DONTWAIT).unwrap_or(0),
        }
    }
}

fn takes_something(stream: BorrowedFd<'_>) -> bool {
    let mut streams = [PollFd::from_borrowed_fd(stream, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut streams, Some(&now)), Ok(1..))
}
