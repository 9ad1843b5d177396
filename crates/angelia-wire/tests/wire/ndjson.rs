//! The NDJSON framer and encoder: properties, every pair of cuts, and the cases worth naming.

use angelia_wire::limits::{HEAD_BYTES, MAX_FRAME_BYTES};
use angelia_wire::ndjson::{self, Frame, Framer};
use bytes::{BufMut, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::invariants::framer::{OwnedLine, check, check_bytes, decode_all, reference};

/// Generates streams from everything a framer must distinguish, with garbage in between.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just("\u{2028}\u{85}\u{feff}".as_bytes().to_vec()),
        4 => vec(b'a'..=b'z', 0..20),
        1 => vec(b'A'..=b'Z', 0..2 * HEAD_BYTES),
        2 => vec(any::<u8>(), 0..20),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_frames(
        stream in stream(),
        limit in prop_oneof![0..40_usize, 0..2 * HEAD_BYTES, Just(MAX_FRAME_BYTES)],
        sizes in vec(1..80_usize, 0..8),
    ) {
        check(&stream, limit, &sizes);
        check(&stream, limit, &[1]);
    }

    #[test]
    fn garbage_is_no_exception(data in vec(any::<u8>(), 0..2048)) {
        check_bytes(&data);
    }

    #[test]
    fn what_is_encoded_comes_back(values in vec("[^\r\n]+", 0..20), size in 1..100_usize) {
        let mut out = BytesMut::new();
        for value in &values {
            ndjson::encode(&mut out, value.as_bytes());
        }
        let expected: Vec<_> = values.into_iter().map(|value| OwnedLine::Line(value.into())).collect();
        prop_assert_eq!(decode_all(MAX_FRAME_BYTES, out.chunks(size)), expected);
    }
}

#[test]
fn every_pair_of_cuts_gives_the_same_frames() {
    let corpus: [&[u8]; 6] = [
        b"{\"a\":1}\n{\"b\":2}\r\n\n\r\n{\"c\":\"\xe2\x80\xa8\"}\nrest",
        b"\r\r\n\r\n\n\r",
        b"short\nthis line is far too long for the limit\nshort again\n",
        b"this line is far too long and never ends",
        b"exactly eight and more\n12345678\n123456789\n1234567\r\n12345678\r\n",
        b"\x00\xff\n\xc3\n\xa9\n",
    ];
    for stream in corpus {
        for limit in [0, 1, 8, 9, MAX_FRAME_BYTES] {
            let expected = reference(stream, limit);
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    let cut = [&stream[..first], &stream[first..second], &stream[second..]];
                    assert_eq!(decode_all(limit, cut.into_iter()), expected, "{first}, {second}");
                }
            }
        }
    }
}

#[test]
fn lines_end_at_newlines_only_and_empty_ones_are_passed_over() {
    let mut framer = Framer::new(MAX_FRAME_BYTES);
    framer.buffer().put_slice("a\rb\u{2028}c\r\n\r\n\n d\r\r\ne\r".as_bytes());
    assert_eq!(framer.next(), Some(Frame::Line("a\rb\u{2028}c".as_bytes())));
    assert_eq!(framer.next(), Some(Frame::Line(b" d\r")));
    assert_eq!(framer.next(), None);
    assert_eq!(framer.finish(), Some(Frame::Partial(b"e")));
    assert_eq!(framer.finish(), None);
}

#[test]
fn a_line_over_the_limit_is_reported_once_and_the_next_one_is_whole() {
    let mut framer = Framer::new(1000);
    for _ in 0..100 {
        framer.buffer().put_slice(&[b'x'; 1000]);
        assert_eq!(framer.next(), None);
    }
    framer.buffer().put_slice(b"end\nnext\n");
    assert_eq!(framer.next(), Some(Frame::TooLong { bytes: 100_003, head: &[b'x'; HEAD_BYTES] }));
    assert_eq!(framer.next(), Some(Frame::Line(b"next")));
    assert_eq!(framer.finish(), None);
}

#[test]
fn a_stream_that_ends_inside_a_line_over_the_limit_still_reports_it() {
    let mut framer = Framer::new(4);
    framer.buffer().put_slice(b"12345");
    assert_eq!(framer.next(), None);
    assert_eq!(framer.finish(), Some(Frame::TooLong { bytes: 5, head: b"12345" }));
    assert_eq!(framer.finish(), None);
}

#[test]
fn lines_up_to_the_default_limit_pass() {
    let mut framer = Framer::new(MAX_FRAME_BYTES);
    let megabyte = vec![b'x'; 1024 * 1024];
    for extra in [&b"\n"[..], b"x\n"] {
        for _ in 0..64 {
            framer.buffer().put_slice(&megabyte);
            assert_eq!(framer.next(), None);
        }
        framer.buffer().put_slice(extra);
        match framer.next() {
            Some(Frame::Line(line)) => {
                assert_eq!((line.len(), extra), (MAX_FRAME_BYTES, &b"\n"[..]));
            }
            Some(Frame::TooLong { bytes, .. }) => assert_eq!(bytes, MAX_FRAME_BYTES + 1),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_value_laid_out_over_lines_is_encoded_as_one() {
    let mut out = BytesMut::new();
    ndjson::encode(&mut out, b"{\r\n  \"a\": 1\n}");
    assert_eq!(&out[..], b"{    \"a\": 1 }\n");
}

#[test]
fn debug_output_does_not_show_what_was_said() {
    let mut framer = Framer::new(MAX_FRAME_BYTES);
    framer.buffer().put_slice(b"secret");
    assert!(!format!("{framer:?}").contains("secret"));
}
