//! Newline-delimited JSON: splits a stream into lines, and encodes a value as one line.
//!
//! ```
//! use angelia_wire::limits::MAX_FRAME_BYTES;
//! use angelia_wire::ndjson::{Frame, Framer};
//! use bytes::BufMut;
//!
//! let mut framer = Framer::new(MAX_FRAME_BYTES);
//! // or `reader.read_buf(framer.buffer()).await?`
//! framer.buffer().put_slice(b"{\"a\":1}\n\n{\"b\"");
//! assert_eq!(framer.next(), Some(Frame::Line(b"{\"a\":1}")));
//! assert_eq!(framer.next(), None); // read on
//! assert_eq!(framer.finish(), Some(Frame::Partial(b"{\"b\"")));
//! ```

use std::ops::Range;

use bytes::{BufMut, BytesMut};
use memchr::memchr;

use crate::limits::HEAD_BYTES;
use crate::lines::{LineBuffer, put_on_one_line};

/// One line of the stream, borrowed from the framer's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A line without its `\n` or `\r\n`; never empty.
    Line(&'a [u8]),
    /// A skipped line over the limit: its length without the `\n`, and its beginning.
    TooLong { bytes: usize, head: &'a [u8] },
    /// The stream ended in the middle of this line.
    Partial(&'a [u8]),
}

/// Splits a stream into lines.
///
/// Only `\n` ends a line, because JSON may contain every other line separator. One `\r` before the
/// `\n` is removed, and empty lines are skipped. A line over the limit occupies at most the limit
/// plus one read, and is reported once, when it ends.
#[derive(Debug)]
pub struct Framer {
    lines: LineBuffer,
    limit: usize,
    /// Bytes of the current line that were dropped because the line is over the limit.
    dropped_bytes: usize,
}

/// Position of a line in the buffer, and its length including the dropped bytes.
struct LineSpan {
    range: Range<usize>,
    bytes: usize,
}

impl Framer {
    /// Creates a framer for lines of up to `limit` bytes, not counting the `\n`.
    pub fn new(limit: usize) -> Self {
        Self { lines: LineBuffer::default(), limit, dropped_bytes: 0 }
    }

    /// Returns the buffer to read into, with at least [`READ_BYTES`](crate::limits::READ_BYTES)
    /// bytes of room.
    pub fn buffer(&mut self) -> &mut (impl BufMut + use<>) {
        self.lines.buffer()
    }

    /// Returns the next complete line, or `None` if more bytes are needed.
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend its items")]
    pub fn next(&mut self) -> Option<Frame<'_>> {
        let found = self.find_line()?;
        Some(self.frame(found, Frame::Line))
    }

    /// Like [`Self::next`], for the end of the stream: also returns an unfinished last line.
    pub fn finish(&mut self) -> Option<Frame<'_>> {
        if let Some(found) = self.find_line() {
            return Some(self.frame(found, Frame::Line));
        }
        let rest = self.lines.cut_rest();
        let found = self.measure(rest)?;
        Some(self.frame(found, Frame::Partial))
    }

    fn find_line(&mut self) -> Option<LineSpan> {
        while let Some(line) = self.lines.cut(|bytes| memchr(b'\n', bytes)) {
            if let Some(found) = self.measure(line) {
                return Some(found);
            }
        }
        if self.dropped_bytes + self.lines.unfinished_len() > self.limit {
            self.dropped_bytes += self.lines.truncate_unfinished(HEAD_BYTES);
        }
        None
    }

    /// Measures a line and strips its `\r`. Returns `None` for an empty line.
    fn measure(&mut self, mut place: Range<usize>) -> Option<LineSpan> {
        let bytes = place.len() + std::mem::take(&mut self.dropped_bytes);
        if bytes <= self.limit && self.lines.get(place.clone()).ends_with(b"\r") {
            place.end -= 1;
        }
        (!place.is_empty()).then_some(LineSpan { range: place, bytes })
    }

    fn frame<'a>(&'a self, found: LineSpan, whole: fn(&'a [u8]) -> Frame<'a>) -> Frame<'a> {
        let line = self.lines.get(found.range);
        if found.bytes > self.limit {
            Frame::TooLong { bytes: found.bytes, head: &line[..line.len().min(HEAD_BYTES)] }
        } else {
            whole(line)
        }
    }
}

/// Appends one JSON value as a line.
///
/// A line break in JSON text can only be whitespace between tokens, so replacing it with a space
/// keeps formatted JSON in one frame without changing its meaning.
pub fn encode(out: &mut BytesMut, json: &[u8]) {
    out.reserve(json.len() + 1);
    put_on_one_line(out, json);
    out.put_u8(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_the_limit_is_not_kept() {
        let mut framer = Framer::new(1000);
        for _ in 0..100 {
            framer.buffer().put_slice(&[b'x'; 100]);
            assert_eq!(framer.next(), None);
            assert!(framer.lines.unfinished_len() <= 1000);
        }
        assert_eq!(framer.dropped_bytes + framer.lines.unfinished_len(), 10_000);
    }
}
