//! However the bytes are cut into reads, the events are the same; and any bytes are decoded.

use angelia_executors::native::provider::Api;
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::{
    invariants::{check_answer, decode_in_reads},
    material::{CHAT_ANSWER, MESSAGES_ANSWER, RESPONSES_ANSWER, chunks, named},
};

#[test]
fn a_stream_cut_at_every_byte_is_the_same() {
    for (api, stream) in [
        (Api::Messages, named(MESSAGES_ANSWER)),
        (Api::Chat, chunks(CHAT_ANSWER)),
        (Api::Responses, named(RESPONSES_ANSWER)),
    ] {
        let whole = format!("{:?}", decode_in_reads(api, stream.as_bytes(), &[]));
        assert_eq!(format!("{:?}", decode_in_reads(api, stream.as_bytes(), &[1])), whole);
        for at in (1..stream.len()).step_by(7) {
            let cut = decode_in_reads(api, stream.as_bytes(), &[at, stream.len()]);
            assert_eq!(format!("{cut:?}"), whole, "{api:?} at {at}");
        }
    }
}

/// Frames of all APIs, in any order, some of them damaged.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let all: Vec<&str> = [MESSAGES_ANSWER, CHAT_ANSWER, RESPONSES_ANSWER].concat();
    let frame = (0..all.len(), any::<Option<(Index, u8)>>()).prop_map(move |(place, damage)| {
        let mut frame = all[place].as_bytes().to_vec();
        if let Some((at, byte)) = damage {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        [b"data: ", &*frame, b"\n\n"].concat()
    });
    vec(frame, 0..24).prop_map(|frames| frames.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_frames_are_decoded(stream in any_stream(), sizes in vec(1_usize..200, 1..4)) {
        check_answer(&stream, &sizes);
    }

    #[test]
    fn any_bytes_are_decoded(bytes in vec(any::<u8>(), 0..256), sizes in vec(1_usize..64, 1..4)) {
        check_answer(&bytes, &sizes);
    }
}
