//! What NDJSON and server-sent events share: both are lines, arriving in reads of any size.

use std::fmt;
use std::ops::Range;

use bytes::{Buf, BufMut, BytesMut};
use memchr::memchr2;

use crate::limits::{KEEP, READ};

/// What has arrived and is not cut into lines yet.
///
/// Holds `start <= scanned <= bytes.len()`: before `start` lie lines already handed out, between
/// `start` and `scanned` an unfinished line, known to contain no terminator. That second mark is
/// what keeps a long line in a thousand small reads from being searched a thousand times.
#[derive(Default)]
pub(crate) struct Lines {
    bytes: BytesMut,
    start: usize,
    scanned: usize,
}

impl Lines {
    /// Room for the next read. Drops the lines handed out before.
    ///
    /// The return type lets the reader append and nothing else, so the marks stay true.
    pub(crate) fn buffer(&mut self) -> &mut (impl BufMut + use<>) {
        if self.start == self.bytes.len() {
            self.bytes.clear(); // back to the beginning, where the cache is warm
        } else {
            self.bytes.advance(self.start);
        }
        self.scanned -= self.start;
        self.start = 0;

        self.bytes.reserve(READ);
        if self.bytes.capacity() > KEEP && self.bytes.len() <= READ {
            let mut small = BytesMut::with_capacity(2 * READ);
            small.extend_from_slice(&self.bytes);
            self.bytes = small;
        }
        &mut self.bytes
    }

    /// Cuts the next line off. `find` gives the place of the first terminator in bytes it has not
    /// seen before; the range excludes it, and is valid until the next call of [`Self::buffer`].
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

    /// Cuts off what is left as if it were a line: the stream has ended.
    pub(crate) fn cut_rest(&mut self) -> Range<usize> {
        let rest = self.start..self.bytes.len();
        self.start = rest.end;
        self.scanned = rest.end;
        rest
    }

    /// The bytes of a range that [`Self::cut`] gave.
    pub(crate) fn get(&self, line: Range<usize>) -> &[u8] {
        &self.bytes[line]
    }

    /// The terminator of a line that [`Self::cut`] gave.
    pub(crate) fn terminator(&self, line: &Range<usize>) -> u8 {
        self.bytes[line.end]
    }

    /// How long the unfinished line is, once [`Self::cut`] has found no more.
    pub(crate) fn unfinished(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Forgets the unfinished line but for its first `keep` bytes; says how many went.
    pub(crate) fn forget(&mut self, keep: usize) -> usize {
        let kept = self.unfinished().min(keep);
        let gone = self.unfinished() - kept;
        self.bytes.truncate(self.start + kept);
        self.scanned = self.bytes.len();
        gone
    }
}

/// Sizes only: the bytes are somebody's conversation.
impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("unfinished", &self.unfinished())
            .field("capacity", &self.bytes.capacity())
            .finish()
    }
}

/// Appends `text` with every line break in it made a space, so that it stays one line.
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
        let mut lines = Lines::default();
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
        let mut lines = Lines::default();
        let read = vec![b'x'; READ];
        for _ in 0..200 {
            lines.buffer().put_slice(&read);
            assert_eq!(lines.cut(|bytes| memchr(b'\n', bytes)), None);
        }
        assert!(lines.bytes.capacity() >= 200 * READ);
        lines.buffer().put_slice(b"\nbegun");
        assert!(lines.cut(|bytes| memchr(b'\n', bytes)).is_some());
        lines.buffer();
        assert!(lines.bytes.capacity() <= KEEP);
        let rest = lines.cut_rest();
        assert_eq!(lines.get(rest), b"begun");
    }

    #[test]
    fn every_read_finds_room_behind_an_unfinished_line() {
        let mut lines = Lines::default();
        for read in [1, 300, READ, 10, 3 * READ, 1] {
            assert!(lines.buffer().chunk_mut().len() >= READ);
            lines.buffer().put_slice(&vec![b'x'; read]);
            assert_eq!(lines.cut(|bytes| memchr(b'\n', bytes)), None);
        }
    }

    #[test]
    fn short_lines_never_grow_the_buffer() {
        let mut lines = Lines::default();
        let stream = b"a line of no great length, again and again\n".repeat(100_000);
        for read in stream.chunks(READ) {
            lines.buffer().put_slice(read);
            while lines.cut(|bytes| memchr(b'\n', bytes)).is_some() {}
            assert!(lines.bytes.capacity() <= KEEP);
        }
    }
}
