//! Frames with their length in front: four bytes, big-endian, then that many bytes.
//!
//! ```
//! use angelia_wire::frame::{self, Frame, Frames};
//!
//! let mut bytes = Vec::new();
//! frame::put(&mut bytes, b"{}");
//! let mut frames = Frames::new(1024);
//! frames.buffer().extend_from_slice(&bytes); // or `reader.read_buf(frames.buffer()).await?`
//! assert_eq!(frames.next(), Some(Frame::Whole(b"{}")));
//! assert_eq!(frames.next(), None); // read on
//! ```

use bytes::{Buf as _, BytesMut};

use crate::limits::{KEEP, READ};

/// The length in front.
pub const HEAD: usize = 4;

/// One frame of the stream, borrowed from the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    Whole(&'a [u8]),
    /// Over the limit. What follows its head is skipped as it comes.
    TooLong {
        bytes: usize,
    },
}

/// Cuts a stream into frames. Memory is taken for what has come, not for what is announced.
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
    /// Handed out already, at the front of the buffer.
    used: usize,
    /// Still to come of a frame that is too long.
    skip: usize,
    limit: usize,
}

impl Frames {
    /// For frames of at most `limit` bytes, the length in front not counted.
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), used: 0, skip: 0, limit }
    }

    /// Where to read into: at least [`READ`] bytes of room.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.advance(self.used);
        self.used = 0;
        self.buffer.reserve(READ);
        &mut self.buffer
    }

    /// The next whole frame, or `None` when more must be read first.
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend its items")]
    pub fn next(&mut self) -> Option<Frame<'_>> {
        let skipped = self.skip.min(self.buffer.len() - self.used);
        self.used += skipped;
        self.skip -= skipped;
        let rest = self.buffer.get(self.used..)?;
        let (head, rest) = rest.split_first_chunk::<HEAD>()?;
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            self.used += HEAD;
            self.skip = length;
            return Some(Frame::TooLong { bytes: length });
        }
        let whole = rest.get(..length)?;
        self.used += HEAD + length;
        Some(Frame::Whole(whole))
    }

    /// Gives memory back while nothing is expected. Idle connections are many.
    pub fn rest(&mut self) {
        if self.used == self.buffer.len() {
            self.buffer = BytesMut::new();
            self.used = 0;
        } else if self.buffer.capacity() > KEEP {
            // A large frame is under way, or was.
            self.buffer.advance(self.used);
            self.used = 0;
        }
    }
}

/// Appends a frame. What is longer than four bytes can say cannot be sent, and nobody means to.
pub fn put(out: &mut Vec<u8>, payload: &[u8]) {
    put_with(out, |out| out.extend_from_slice(payload));
}

/// Appends a frame whose payload is written in place.
pub fn put_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    write(out);
    let length = out.len() - start - HEAD;
    let head = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    out[start..start + HEAD].copy_from_slice(&head);
}
