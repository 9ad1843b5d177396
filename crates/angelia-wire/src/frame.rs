//! Length-prefixed frames: a length of four bytes, big-endian, then that many bytes.
//!
//! ```
//! use angelia_wire::frame::{self, Frame, FrameDecoder};
//!
//! let mut bytes = Vec::new();
//! frame::encode(&mut bytes, b"{}");
//! let mut frames = FrameDecoder::new(1024);
//! frames.buffer().extend_from_slice(&bytes); // or `reader.read_buf(frames.buffer()).await?`
//! assert_eq!(frames.next(), Some(Frame::Whole(b"{}")));
//! assert_eq!(frames.next(), None); // read on
//! ```

use bytes::{Buf as _, BytesMut};

use crate::limits::{KEEP, READ};

/// Size of the length in front of a frame.
pub const HEAD: usize = 4;

/// One frame of the stream, borrowed from the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    Whole(&'a [u8]),
    /// Over the limit. The payload is skipped as it arrives.
    TooLong {
        bytes: usize,
    },
}

/// Cuts a stream into frames. Allocates for bytes that have arrived, never for an announced length.
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
    /// Bytes at the front of the buffer that were already returned.
    used: usize,
    /// Bytes still to be skipped of a frame that is too long.
    skip: usize,
    limit: usize,
}

impl Frames {
    /// For payloads of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), used: 0, skip: 0, limit }
    }

    /// Returns the buffer to read into, with at least [`READ_BYTES`] bytes of room.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.advance(self.used);
        self.used = 0;
        self.buffer.reserve(READ);
        &mut self.buffer
    }

    /// Returns the next complete frame, or `None` when more must be read first.
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

    /// Frees memory while nothing is expected: there can be many idle connections.
    pub fn rest(&mut self) {
        if self.used == self.buffer.len() {
            self.buffer = BytesMut::new();
            self.used = 0;
        } else if self.buffer.capacity() > KEEP {
            // Part of a large frame has arrived: `advance` drops the bytes before it.
            self.buffer.advance(self.used);
            self.used = 0;
        }
    }
}

/// Appends a frame. The payload must not be longer than four bytes can express.
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
