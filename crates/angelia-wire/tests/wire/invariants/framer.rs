//! The framer against its reference.

use angelia_wire::limits::HEAD_BYTES;
use angelia_wire::ndjson::{Frame, Framer};
use bytes::BufMut;

use super::{parse_case, split_cyclic};

/// A [`Frame`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedLine {
    Line(Vec<u8>),
    TooLong { bytes: usize, head: Vec<u8> },
    Partial(Vec<u8>),
}

impl From<Frame<'_>> for OwnedLine {
    fn from(frame: Frame<'_>) -> Self {
        match frame {
            Frame::Line(line) => Self::Line(line.to_vec()),
            Frame::TooLong { bytes, head } => Self::TooLong { bytes, head: head.to_vec() },
            Frame::Partial(line) => Self::Partial(line.to_vec()),
        }
    }
}

/// Runs [`check`] on a case made of any bytes.
pub(crate) fn check_bytes(data: &[u8]) {
    if let Some((limit, sizes, stream)) = parse_case(data) {
        check(stream, limit, &sizes);
    }
}

/// Asserts that the frames match the reference, however `stream` is split.
pub(crate) fn check(stream: &[u8], limit: usize, sizes: &[usize]) {
    assert_eq!(decode_all(limit, split_cyclic(stream, sizes)), reference(stream, limit));
}

pub(crate) fn decode_all<'a>(
    limit: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Vec<OwnedLine> {
    let mut framer = Framer::new(limit);
    let mut seen = Vec::new();
    for piece in pieces {
        framer.buffer().put_slice(piece);
        while let Some(frame) = framer.next() {
            seen.push(frame.into());
        }
    }
    while let Some(frame) = framer.finish() {
        seen.push(frame.into());
    }
    seen
}

pub(crate) fn reference(stream: &[u8], limit: usize) -> Vec<OwnedLine> {
    let mut frames = Vec::new();
    for whole in stream.split_inclusive(|&byte| byte == b'\n') {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let text = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        if line.len() > limit {
            let head = line.iter().copied().take(HEAD_BYTES).collect();
            frames.push(OwnedLine::TooLong { bytes: line.len(), head });
        } else if text.is_empty() {
            // An empty line is skipped.
        } else if whole.ends_with(b"\n") {
            frames.push(OwnedLine::Line(text));
        } else {
            frames.push(OwnedLine::Partial(text));
        }
    }
    frames
}
