//! Events to bytes. Pure, and exact to the byte: the fields stand in the order of the calls.

use std::fmt;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use memchr::memchr2;

use crate::lines::put_on_one_line;

/// Writes one event; [`Self::end`] completes it.
///
/// ```
/// # use angelia_wire::sse::Encoder;
/// # let mut out = bytes::BytesMut::new();
/// Encoder::new(&mut out).id("7").event("text.delta").data(r#"{"text":"hi"}"#).end();
/// assert_eq!(out, "id: 7\nevent: text.delta\ndata: {\"text\":\"hi\"}\n\n");
/// ```
#[must_use = "a client sees an event only after its `end`"]
pub struct Encoder<'a> {
    out: &'a mut BytesMut,
}

impl<'a> Encoder<'a> {
    /// Starts an event at the end of `out`.
    pub fn new(out: &'a mut BytesMut) -> Self {
        Self { out }
    }

    /// The event's name. A line break in it becomes a space.
    pub fn event(self, name: &str) -> Self {
        self.field("event", name.as_bytes())
    }

    /// What the client sends as `Last-Event-ID` when it comes back. A line break in it becomes a
    /// space; one with a NUL is ignored by every client.
    pub fn id(self, id: &str) -> Self {
        self.field("id", id.as_bytes())
    }

    /// How long the client waits before it comes back.
    pub fn retry(self, after: Duration) -> Self {
        self.field("retry", after.as_millis().to_string().as_bytes())
    }

    /// The payload, one `data` field per line of it; the client sees each line break as `\n`.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        self.field_per_line("data", data.as_ref())
    }

    /// Something for whoever watches the wire; clients ignore it. Alone, it is a keep-alive.
    pub fn comment(self, text: &str) -> Self {
        self.field_per_line("", text.as_bytes())
    }

    /// The empty line that makes the client see the event.
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

/// Without the bytes: they are somebody's conversation.
impl fmt::Debug for Encoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("bytes", &self.out.len()).finish()
    }
}
