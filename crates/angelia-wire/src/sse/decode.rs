//! Decodes server-sent events, for our own client of `/api` and for tests.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::time::Duration;

use bytes::BufMut;
use memchr::{memchr, memchr2};

use crate::lines::LineBuffer;

/// One event, as dispatched to a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// `message` if the event has no name.
    pub name: String,
    pub data: String,
    /// The most recent id in the stream, including this event's own; empty if there was none.
    pub id: String,
}

/// An event over the limit, which was skipped. The stream continues.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "skipped an event of {bytes} bytes, more than the limit of {limit}; fetch its content in another way"
)]
pub struct EventTooLong {
    pub bytes: usize,
    pub limit: usize,
}

/// Decodes a stream of events.
///
/// Read into [`Self::buffer`], then iterate; `None` means that more bytes are needed, not that the
/// stream has ended. As the standard requires, an event cut off by the end of the stream is
/// dropped, and invalid UTF-8 becomes replacement characters.
pub struct SseDecoder {
    lines: LineBuffer,
    /// Applies to all lines of one event together, without their terminators.
    limit: usize,
    event_bytes: usize,
    /// The beginning of the current line was dropped because the event is over the limit.
    line_is_cut: bool,
    last_terminator: u8,
    first_line_read: bool,
    name: String,
    data: String,
    id: String,
    last_id: String,
    retry: Option<Duration>,
}

impl SseDecoder {
    /// Creates a decoder for events of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            lines: LineBuffer::default(),
            limit,
            event_bytes: 0,
            line_is_cut: false,
            last_terminator: b'\n',
            first_line_read: false,
            name: String::new(),
            data: String::new(),
            id: String::new(),
            last_id: String::new(),
            retry: None,
        }
    }

    /// Returns the buffer to read into, with at least [`READ_BYTES`](crate::limits::READ_BYTES)
    /// bytes of room.
    pub fn buffer(&mut self) -> &mut (impl BufMut + use<>) {
        self.lines.buffer()
    }

    /// Returns the id to send as `Last-Event-ID` when reconnecting. It is the id of the last
    /// complete event, so that the server resends an event that was cut off. Empty if there was
    /// none.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// Returns how long clients should wait before they reconnect, if the server has said so.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn process_line(&mut self, line: Range<usize>) -> Option<Result<SseEvent, EventTooLong>> {
        let terminator = self.lines.terminator(&line);
        let after = mem::replace(&mut self.last_terminator, terminator);
        let first = !mem::replace(&mut self.first_line_read, true);
        let empty = !mem::take(&mut self.line_is_cut) && line.is_empty();
        if empty && (after, terminator) == (b'\r', b'\n') {
            return None; // the LF of a CRLF whose CR already ended the line
        }
        if empty {
            return self.dispatch();
        }
        self.event_bytes += line.len();
        if self.event_bytes <= self.limit {
            self.process_field(line, first);
        }
        None
    }

    fn process_field(&mut self, line: Range<usize>, first: bool) {
        let mut line = self.lines.get(line);
        if first {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        let (name, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match name {
            b"event" => self.name = value.into_owned(),
            b"data" => {
                self.data.push_str(&value);
                self.data.push('\n');
            }
            b"id" if !value.contains('\0') => self.id = value.into_owned(),
            b"retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().map(Duration::from_millis).ok().or(self.retry);
            }
            _ => {} // a comment, whose name is empty, or an unknown field
        }
    }

    fn dispatch(&mut self) -> Option<Result<SseEvent, EventTooLong>> {
        let bytes = mem::take(&mut self.event_bytes);
        let mut name = mem::take(&mut self.name);
        let mut data = mem::take(&mut self.data);
        // Even for a skipped event: requesting it again would return the same oversized event.
        self.last_id.clone_from(&self.id);
        if bytes > self.limit {
            return Some(Err(EventTooLong { bytes, limit: self.limit }));
        }
        data.pop()?; // the line break after the last line; without data there is no event
        if name.is_empty() {
            name.push_str("message");
        }
        Some(Ok(SseEvent { name, data, id: self.last_id.clone() }))
    }
}

impl Iterator for SseDecoder {
    type Item = Result<SseEvent, EventTooLong>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(line) = self.lines.cut(|bytes| memchr2(b'\n', b'\r', bytes)) {
            if let Some(event) = self.process_line(line) {
                return Some(event);
            }
        }
        if self.event_bytes + self.lines.unfinished_len() > self.limit {
            let gone = self.lines.truncate_unfinished(0);
            self.event_bytes += gone;
            self.line_is_cut |= gone > 0;
        }
        None
    }
}

/// Omits the event's content, which is a private conversation.
impl fmt::Debug for SseDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseDecoder")
            .field("lines", &self.lines)
            .field("size", &self.event_bytes)
            .field("last_id", &self.last_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_over_the_limit_is_not_kept() {
        let mut decoder = SseDecoder::new(1000);
        decoder.buffer().put_slice(b"data: some text\ndata: ");
        for _ in 0..100 {
            decoder.buffer().put_slice(b"text that never ends");
            assert_eq!(decoder.next(), None);
            assert!(decoder.lines.unfinished_len() + decoder.data.len() <= 1000);
        }
    }
}
