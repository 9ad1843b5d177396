//! Encodes server-sent events. Fields appear in the order of the calls.

use std::fmt;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use memchr::memchr2;

use crate::lines::put_on_one_line;

/// Encodes one event; [`Self::end`] completes it.
///
/// ```
/// # use angelia_wire::sse::SseEncoder;
/// # let mut out = bytes::BytesMut::new();
/// SseEncoder::new(&mut out).id("7").event("text.delta").data(r#"{"text":"hi"}"#).end();
/// assert_eq!(out, "id: 7\nevent: text.delta\ndata: {\"text\":\"hi\"}\n\n");
/// ```
#[must_use = "a client sees an event only after its `end`"]
pub struct SseEncoder<'a> {
    out: &'a mut BytesMut,
}

impl<'a> SseEncoder<'a> {
    /// Starts an event at the end of `out`.
    pub fn new(out: &'a mut BytesMut) -> Self {
        Self { out }
    }

    /// Writes the event's name. Line breaks in it become spaces.
    pub fn event(self, name: &str) -> Self {
        self.field("event", name.as_bytes())
    }

    /// Writes the id that the client sends as `Last-Event-ID` when it reconnects. Line breaks in it
    /// become spaces. Clients ignore an id that contains a NUL.
    pub fn id(self, id: &str) -> Self {
        self.field("id", id.as_bytes())
    }

    /// Writes how long the client should wait before it reconnects.
    pub fn retry(self, after: Duration) -> Self {
        self.field("retry", after.as_millis().to_string().as_bytes())
    }

    /// Writes the payload, one `data` field per line; the client sees every line break as `\n`.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        self.field_per_line("data", data.as_ref())
    }

    /// Writes a comment, which clients ignore. On its own, a comment is a keep-alive.
    pub fn comment(self, text: &str) -> Self {
        self.field_per_line("", text.as_bytes())
    }

    /// Writes the empty line that makes the client dispatch the event.
    pub fn end(self) {
        self.out.put_u8(b'\n');
    }

    fn field_per_line(mut self, name: &str, mut text: &[u8]) -> Self {
        while let Some(at) = memchr2(b'\n', b'\r', text) {
            self = self.field(name, &text[..at]);
            let crlf = text[at..].starts_with(b"\r\n");
            text = &text[at + 1 + usize::from(crlf)..];
        }
        self.field(name, text)
    }

    fn field(self, name: &str, value: &[u8]) -> Self {
        self.out.reserve(name.len() + value.len() + 3);
        self.out.put_slice(name.as_bytes());
        self.out.put_slice(b": ");
        put_on_one_line(self.out, value);
        self.out.put_u8(b'\n');
        self
    }
}

/// Omits the bytes, which are a private conversation.
impl fmt::Debug for SseEncoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseEncoder").field("bytes", &self.out.len()).finish()
    }
}
