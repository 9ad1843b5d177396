//! Length-prefixed frames: a four-byte big-endian length, then that many bytes.
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

use crate::limits::{MAX_IDLE_BUFFER_BYTES, READ_BYTES};

/// Size of the length prefix.
pub const HEADER_BYTES: usize = 4;

/// One frame of the stream, borrowed from the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    Whole(&'a [u8]),
    /// A frame over the limit. Its payload is skipped as it arrives.
    TooLong {
        bytes: usize,
    },
}

/// Splits a stream into frames. Allocates for bytes that have arrived, never for an announced
/// length.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    /// Bytes at the front of the buffer that were already returned.
    consumed_bytes: usize,
    /// Bytes of an oversized frame that are still to be skipped.
    bytes_to_skip: usize,
    limit: usize,
}

impl FrameDecoder {
    /// Creates a decoder for payloads of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), consumed_bytes: 0, bytes_to_skip: 0, limit }
    }

    /// Returns the buffer to read into, with at least [`READ_BYTES`] bytes of room.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.advance(self.consumed_bytes);
        self.consumed_bytes = 0;
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    /// Returns the next complete frame, or `None` if more bytes are needed.
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend its items")]
    pub fn next(&mut self) -> Option<Frame<'_>> {
        let skipped = self.bytes_to_skip.min(self.buffer.len() - self.consumed_bytes);
        self.consumed_bytes += skipped;
        self.bytes_to_skip -= skipped;
        let rest = self.buffer.get(self.consumed_bytes..)?;
        let (head, rest) = rest.split_first_chunk::<HEADER_BYTES>()?;
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            self.consumed_bytes += HEADER_BYTES;
            self.bytes_to_skip = length;
            return Some(Frame::TooLong { bytes: length });
        }
        let whole = rest.get(..length)?;
        self.consumed_bytes += HEADER_BYTES + length;
        Some(Frame::Whole(whole))
    }

    /// Frees memory while the connection is idle; there can be many idle connections.
    pub fn shrink(&mut self) {
        if self.consumed_bytes == self.buffer.len() {
            self.buffer = BytesMut::new();
            self.consumed_bytes = 0;
        } else if self.buffer.capacity() > MAX_IDLE_BUFFER_BYTES {
            // Part of a large frame has arrived: `advance` drops only the bytes before it.
            self.buffer.advance(self.consumed_bytes);
            self.consumed_bytes = 0;
        }
    }
}

/// Appends a frame. The payload's length must fit in four bytes.
pub fn encode(out: &mut Vec<u8>, payload: &[u8]) {
    encode_with(out, |out| out.extend_from_slice(payload));
}

/// Appends a frame whose payload `write` appends in place.
pub fn encode_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    write(out);
    let length = out.len() - start - HEADER_BYTES;
    let head = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    out[start..start + HEADER_BYTES].copy_from_slice(&head);
}
