//! The decoder of server-sent events against its reference.

use std::time::Duration;

use angelia_wire::sse::{EventTooLong, SseDecoder, SseEvent};
use bytes::BufMut;

use super::{parse_case, split_cyclic};

/// Everything that decoding a stream yields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DecodedStream {
    pub(crate) events: Vec<Result<SseEvent, EventTooLong>>,
    pub(crate) last_id: String,
    pub(crate) retry: Option<Duration>,
}

/// Runs [`check`] on a case made of any bytes.
pub(crate) fn check_bytes(data: &[u8]) {
    if let Some((limit, sizes, stream)) = parse_case(data) {
        check(stream, limit, &sizes);
    }
}

/// Asserts that decoding matches the reference, however `stream` is split.
pub(crate) fn check(stream: &[u8], limit: usize, sizes: &[usize]) {
    assert_eq!(decode_all(limit, split_cyclic(stream, sizes)), reference(stream, limit));
}

pub(crate) fn decode_all<'a>(
    limit: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> DecodedStream {
    let mut decoder = SseDecoder::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.buffer().put_slice(piece);
        events.extend(decoder.by_ref());
    }
    DecodedStream { events, last_id: decoder.last_id().to_owned(), retry: decoder.retry() }
}

pub(crate) fn reference(stream: &[u8], limit: usize) -> DecodedStream {
    let mut told = DecodedStream::default();
    let (mut name, mut data, mut id) = (String::new(), Vec::new(), String::new());
    let mut bytes = 0;
    for (number, line) in lines(stream).into_iter().enumerate() {
        bytes += line.len();
        if line.is_empty() {
            told.last_id.clone_from(&id);
            if bytes > limit {
                told.events.push(Err(EventTooLong { bytes, limit }));
            } else if !data.is_empty() {
                let name = if name.is_empty() { "message".to_owned() } else { name.clone() };
                told.events.push(Ok(SseEvent { name, data: data.join("\n"), id: id.clone() }));
            }
            (name, data, bytes) = (String::new(), Vec::new(), 0);
        }
        if bytes > limit {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.strip_prefix('\u{feff}').filter(|_| number == 0).unwrap_or(&text);
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "event" => name = value,
            "data" => data.push(value),
            "id" if !value.contains('\0') => id = value,
            "retry" if value.chars().all(|digit| digit.is_ascii_digit()) => {
                told.retry = value.parse().map(Duration::from_millis).ok().or(told.retry);
            }
            _ => {}
        }
    }
    told
}

/// Returns the terminated lines of `stream`.
fn lines(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = vec![Vec::new()];
    let mut bytes = stream.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'\r' {
            bytes.next_if_eq(&b'\n');
        }
        match (byte, lines.last_mut()) {
            (b'\r' | b'\n', _) => lines.push(Vec::new()),
            (_, Some(line)) => line.push(byte),
            (_, None) => {}
        }
    }
    lines.pop(); // the last one is not terminated
    lines
}
