//! The decoder of length-prefixed frames against its reference.

use angelia_wire::frame::{Frame, FrameDecoder, HEADER_BYTES};

use super::{parse_case, split_cyclic};

/// A [`Frame`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedFrame {
    Whole(Vec<u8>),
    TooLong(usize),
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

fn decode_all<'a>(limit: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<OwnedFrame> {
    let mut frames = FrameDecoder::new(limit);
    let mut seen = Vec::new();
    for (number, piece) in pieces.enumerate() {
        frames.buffer().extend_from_slice(piece);
        while let Some(frame) = frames.next() {
            seen.push(match frame {
                Frame::Whole(bytes) => OwnedFrame::Whole(bytes.to_vec()),
                Frame::TooLong { bytes } => OwnedFrame::TooLong(bytes),
            });
        }
        // Releasing memory must not change the result.
        if number % 2 == 0 {
            frames.shrink();
        }
    }
    seen
}

fn reference(mut stream: &[u8], limit: usize) -> Vec<OwnedFrame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = stream.split_first_chunk::<HEADER_BYTES>() {
        let length = u32::from_be_bytes(*head) as usize;
        if length > limit {
            frames.push(OwnedFrame::TooLong(length));
        } else if let Some(whole) = rest.get(..length) {
            frames.push(OwnedFrame::Whole(whole.to_vec()));
        }
        stream = rest.get(length..).unwrap_or_default();
    }
    frames
}
