//! Length-prefixed frames.

use angelia_wire::frame::{self, Frame, FrameDecoder};
use proptest::prelude::*;

use crate::invariants::frames;

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let frame = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|payload| {
            let mut bytes = Vec::new();
            frame::encode(&mut bytes, &payload);
            bytes
        }),
        // A truncated frame, or bytes that are no frame at all.
        prop::collection::vec(0..8_u8, 0..12),
    ];
    prop::collection::vec(frame, 0..8).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn wherever_the_stream_is_cut_the_frames_are_the_same(
        stream in stream(),
        limit in 0..64_usize,
        sizes in prop::collection::vec(1..9_usize, 1..9),
    ) {
        frames::check(&stream, limit, &sizes);
    }

    #[test]
    fn so_are_those_of_any_bytes(data in prop::collection::vec(any::<u8>(), 0..64)) {
        frames::check_bytes(&data);
    }
}

#[test]
fn what_is_announced_takes_no_memory() {
    let mut frames = FrameDecoder::new(usize::MAX);
    frames.buffer().extend_from_slice(&[0xff, 0xff, 0xff, 0xff, b'x']);
    assert_eq!(frames.next(), None);
    assert!(frames.buffer().capacity() < 1024 * 1024);
}

#[test]
fn the_limit_is_inclusive() {
    let mut frames = FrameDecoder::new(3);
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, b"abc");
    frame::encode(&mut bytes, b"abcd");
    frame::encode(&mut bytes, b"");
    frames.buffer().extend_from_slice(&bytes);
    assert_eq!(frames.next(), Some(Frame::Whole(b"abc")));
    assert_eq!(frames.next(), Some(Frame::TooLong { bytes: 4 }));
    assert_eq!(frames.next(), Some(Frame::Whole(b"")));
    assert_eq!(frames.next(), None);
}
