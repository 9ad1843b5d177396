//! Line buffer shared by NDJSON and server-sent events, whose lines arrive in reads of any size.

use std::fmt;
use std::ops::Range;

use bytes::{Buf, BufMut, BytesMut};
use memchr::memchr2;

use crate::limits::{MAX_IDLE_BUFFER_BYTES, READ_BYTES};

/// Bytes that have arrived but are not split into lines yet.
///
/// Invariant: `start <= scanned <= bytes.len()`. The bytes before `start` are lines that were
/// already returned; those between `start` and `scanned` belong to an unfinished line and hold no
/// terminator. Thanks to `scanned`, a long line that arrives in a thousand small reads is searched
/// only once.
#[derive(Default)]
pub(crate) struct LineBuffer {
    bytes: BytesMut,
    start: usize,
    scanned: usize,
}

impl LineBuffer {
    /// Returns room for the next read, and drops the lines that were already returned.
    ///
    /// The return type only allows appending, which preserves the invariant.
    pub(crate) fn buffer(&mut self) -> &mut (impl BufMut + use<>) {
        if self.start == self.bytes.len() {
            self.bytes.clear(); // reuse the front of the buffer, which is in the CPU cache
        } else {
            self.bytes.advance(self.start);
        }
        self.scanned -= self.start;
        self.start = 0;

        self.bytes.reserve(READ_BYTES);
        // A long line has grown the buffer: replace it with a small one.
        if self.bytes.capacity() > MAX_IDLE_BUFFER_BYTES && self.bytes.len() <= READ_BYTES {
            let mut small = BytesMut::with_capacity(2 * READ_BYTES);
            small.extend_from_slice(&self.bytes);
            self.bytes = small;
        }
        &mut self.bytes
    }

    /// Cuts off the next line. `find` returns the position of the first terminator in the bytes
    /// that have not been searched yet. The range excludes the terminator and stays valid until the
    /// next call to [`Self::buffer`].
    pub(crate) fn cut(
        &mut self,
        find: impl FnOnce(&[u8]) -> Option<usize>,
    ) -> Option<Range<usize>> {
        let Some(at) = find(&self.bytes[self.scanned..]) else {
            self.scanned = self.bytes.len();
            return None;
        };
        let line = self.start..self.scanned + at;
        self.start = line.end + 1;
        self.scanned = self.start;
        Some(line)
    }

    /// Cuts off the rest as if it were a line, for use once the stream has ended.
    pub(crate) fn cut_rest(&mut self) -> Range<usize> {
        let rest = self.start..self.bytes.len();
        self.start = rest.end;
        self.scanned = rest.end;
        rest
    }

    /// Returns the bytes of a range from [`Self::cut`].
    pub(crate) fn get(&self, line: Range<usize>) -> &[u8] {
        &self.bytes[line]
    }

    /// Returns the terminator of a line from [`Self::cut`].
    pub(crate) fn terminator(&self, line: &Range<usize>) -> u8 {
        self.bytes[line.end]
    }

    /// Returns the length of the unfinished line. Call it after [`Self::cut`] has returned `None`.
    pub(crate) fn unfinished_len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Drops the unfinished line except its first `keep` bytes. Returns the number of dropped
    /// bytes.
    pub(crate) fn truncate_unfinished(&mut self, keep: usize) -> usize {
        let kept = self.unfinished_len().min(keep);
        let gone = self.unfinished_len() - kept;
        self.bytes.truncate(self.start + kept);
        self.scanned = self.bytes.len();
        gone
    }
}

/// Prints only sizes, because the bytes are private conversations.
impl fmt::Debug for LineBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineBuffer")
            .field("unfinished", &self.unfinished_len())
            .field("capacity", &self.bytes.capacity())
            .finish()
    }
}

/// Appends `text` on one line, with every line break replaced by a space.
pub(crate) fn put_on_one_line(out: &mut BytesMut, mut text: &[u8]) {
    while let Some(at) = memchr2(b'\n', b'\r', text) {
        out.extend_from_slice(&text[..at]);
        out.put_u8(b' ');
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use memchr::memchr;

    use super::*;

    #[test]
    fn no_byte_is_searched_twice() {
        let stream = [vec![b'x'; 50_000], b"\nshort\n".to_vec(), vec![b'y'; 50_000]].concat();
        let mut lines = LineBuffer::default();
        let mut searched = 0;
        for read in stream.chunks(7) {
            lines.buffer().put_slice(read);
            let mut look = |bytes: &[u8]| {
                let at = memchr(b'\n', bytes);
                searched += at.map_or(bytes.len(), |at| at + 1);
                at
            };
            while lines.cut(&mut look).is_some() {}
        }
        assert_eq!(searched, stream.len());
    }

    #[test]
    fn a_giant_line_leaves_no_giant_buffer() {
        let mut lines = LineBuffer::default();
        let read = vec![b'x'; READ_BYTES];
        for _ in 0..200 {
            lines.buffer().put_slice(&read);
            assert_eq!(lines.cut(|bytes| memchr(b'\n', bytes)), None);
        }
        assert!(lines.bytes.capacity() >= 200 * READ_BYTES);
        lines.buffer().put_slice(b"\nbegun");
        assert!(lines.cut(|bytes| memchr(b'\n', bytes)).is_some());
        lines.buffer();
        assert!(lines.bytes.capacity() <= MAX_IDLE_BUFFER_BYTES);
        let rest = lines.cut_rest();
        assert_eq!(lines.get(rest), b"begun");
    }

    #[test]
    fn every_read_finds_room_behind_an_unfinished_line() {
        let mut lines = LineBuffer::default();
        for read in [1, 300, READ_BYTES, 10, 3 * READ_BYTES, 1] {
            assert!(lines.buffer().chunk_mut().len() >= READ_BYTES);
            lines.buffer().put_slice(&vec![b'x'; read]);
            assert_eq!(lines.cut(|bytes| memchr(b'\n', bytes)), None);
        }
    }

    #[test]
    fn short_lines_never_grow_the_buffer() {
        let mut lines = LineBuffer::default();
        let stream = b"a line of no great length, again and again\n".repeat(100_000);
        for read in stream.chunks(READ_BYTES) {
            lines.buffer().put_slice(read);
            while lines.cut(|bytes| memchr(b'\n', bytes)).is_some() {}
            assert!(lines.bytes.capacity() <= MAX_IDLE_BUFFER_BYTES);
        }
    }
}
