//! The decoder of length-prefixed frames against its reference.

use angelia_wire::frame::{Frame, Frames, HEAD};

use super::{case, pieces};

/// A [`Frame`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    Whole(Vec<u8>),
    TooLong(usize),
}

/// Runs [`check`] on a case made of any bytes.
pub(crate) fn check_bytes(data: &[u8]) {
    if let Some((limit, sizes, stream)) = case(data) {
        check(stream, limit, &sizes);
    }
}

/// Asserts that the frames match the reference, however `stream` is split.
pub(crate) fn check(stream: &[u8], limit: usize, sizes: &[usize]) {
    assert_eq!(frames(limit, pieces(stream, sizes)), reference(stream, limit));
}

fn frames<'a>(limit: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut frames = Frames::new(limit);
    let mut seen = Vec::new();
    for (number, piece) in pieces.enumerate() {
        frames.buffer().extend_from_slice(piece);
        while let Some(frame) = frames.next() {
            seen.push(match frame {
                Frame::Whole(bytes) => Owned::Whole(bytes.to_vec()),
                Frame::TooLong { bytes } => Owned::TooLong(bytes),
            });
        }
        // Releasing memory must not change the result.
        if number % 2 == 0 {
            frames.rest();
        }
    }
    seen
}

fn reference(mut stream: &[u8], limit: usize) -> Vec<Owned> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = stream.split_first_chunk::<HEAD>() {
        let length = u32::from_be_bytes(*head) as usize;
        if length > limit {
            frames.push(Owned::TooLong(length));
        } else if let Some(whole) = rest.get(..length) {
            frames.push(Owned::Whole(whole.to_vec()));
        }
        stream = rest.get(length..).unwrap_or_default();
    }
    frames
}
