//! Server-sent events: properties, every pair of cuts, exact bytes, and the standard's examples.

use std::time::Duration;

use angelia_wire::limits::MAX_FRAME_BYTES;
use angelia_wire::sse::{EventTooLong, SseEncoder, SseEvent};
use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::invariants::sse::{DecodedStream, check, check_bytes, decode_all, reference};

/// Generates streams from everything a decoder must distinguish, with garbage in between.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::sample::select(vec![
        "\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n", "\u{feff}", "data", "data:", "data: ",
        "event: ", "id: ", "id", "retry: ", ":", " ", "\0", "7", "1500", "x", "é", "[DONE]",
    ]);
    let piece = prop_oneof![
        8 => text.prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ];
    vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_cut_tells_the_same(
        stream in stream(),
        limit in prop_oneof![0..30_usize, Just(MAX_FRAME_BYTES)],
        sizes in vec(1..20_usize, 0..8),
    ) {
        check(&stream, limit, &sizes);
        check(&stream, limit, &[1]);
    }

    #[test]
    fn garbage_is_no_exception(data in vec(any::<u8>(), 0..2048)) {
        check_bytes(&data);
    }

    #[test]
    fn what_is_encoded_comes_back(
        events in vec(("[^\r\n\0]+", "[^\r\n]+", "(?s).{0,40}", ".*"), 0..10),
        size in 1..100_usize,
    ) {
        let mut out = BytesMut::new();
        let mut expected = Vec::new();
        for (id, name, data, comment) in events {
            SseEncoder::new(&mut out).comment(&comment).id(&id).event(&name).data(&data).end();
            let data = data.replace("\r\n", "\n").replace('\r', "\n");
            expected.push(Ok(SseEvent { name, data, id }));
        }
        prop_assert_eq!(decode_all(MAX_FRAME_BYTES, out.chunks(size)).events, expected);
    }

    #[test]
    fn no_value_can_forge_a_field(text in "(?s)[\r\na: ]{0,12}") {
        let mut out = BytesMut::new();
        SseEncoder::new(&mut out).comment(&text).id(&text).event(&text).data(&text).end();
        prop_assert_eq!(decode_all(MAX_FRAME_BYTES, out.chunks(out.len())).events.len(), 1);
    }
}

#[test]
fn every_pair_of_cuts_tells_the_same() {
    let corpus: [&[u8]; 6] = [
        b"\xEF\xBB\xBFid: 1\r\nevent: a\r\ndata: x\r\n\r\ndata: y\r\n\r\n",
        b"data: x\rdata: y\r\rdata\n\n: ping\n\nretry: 10\nretry: x\nretry: 99999999999999999999\n\n",
        b"id: 1\n\nid: a\0b\ndata: z\n\nid\ndata:  w\n\nid: 9\ndata: cut short",
        b"data: far too long for a small limit\r\ndata: x\r\n\r\ndata: ok\r\n\r\n",
        b"\n\xEF\xBB\xBFdata: no mark, not the first line\n\ndata: \xff\xc3\xa9\n\n",
        b"\xEF\xBB\xBF\n\n\r\n\r",
    ];
    for stream in corpus {
        for limit in [0, 2, 8, 9, 30, MAX_FRAME_BYTES] {
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
fn the_bytes_are_exact() {
    let mut out = BytesMut::new();
    SseEncoder::new(&mut out).event("message_stop").data(r#"{"type":"message_stop"}"#).end();
    SseEncoder::new(&mut out).data("[DONE]").end();
    SseEncoder::new(&mut out).comment("keep-alive").end();
    SseEncoder::new(&mut out).retry(Duration::from_millis(1500)).id("7\n8").end();
    SseEncoder::new(&mut out).data("one\ntwo\r\n\rthree\n").end();
    SseEncoder::new(&mut out).data("").end();
    let expected = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n\
        data: [DONE]\n\n\
        : keep-alive\n\n\
        retry: 1500\nid: 7 8\n\n\
        data: one\ndata: two\ndata: \ndata: three\ndata: \n\n\
        data: \n\n";
    assert_eq!(out, expected);
}

fn decode_text(stream: &str) -> DecodedStream {
    decode_all(MAX_FRAME_BYTES, std::iter::once(stream.as_bytes()))
}

fn event(name: &str, data: &str, id: &str) -> SseEvent {
    let [name, data, id] = [name, data, id].map(str::to_owned);
    SseEvent { name, data, id }
}

/// The example streams of the standard's section on interpreting event streams, with the events it
/// derives from them.
#[test]
fn the_standards_examples() {
    let stocks = decode_text("data: YHOO\ndata: +2\ndata: 10\n\n");
    assert_eq!(stocks.events, [Ok(event("message", "YHOO\n+2\n10", ""))]);

    let blocks = decode_text(
        ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
    );
    let expected =
        [Ok(event("message", "first event", "1")), Ok(event("message", "second event", ""))];
    assert_eq!(blocks.events, expected);

    let empty = decode_text("data\n\ndata\ndata\n\ndata:");
    assert_eq!(empty.events, [Ok(event("message", "", "")), Ok(event("message", "\n", ""))]);

    let spaces = decode_text("data:test\n\ndata: test\n\n");
    assert_eq!(spaces.events, [Ok(event("message", "test", "")), Ok(event("message", "test", ""))]);
}

#[test]
fn an_event_cut_short_does_not_move_the_place_to_resume_from() {
    let stream = decode_text("id: 6\nevent: tick\ndata: x\n\nid: 7\ndata: y\n");
    assert_eq!(stream.events, [Ok(event("tick", "x", "6"))]);
    assert_eq!(stream.last_id, "6");
}

#[test]
fn an_event_over_the_limit_is_skipped_and_the_next_one_is_whole() {
    let stream = format!("id: 1\ndata: {}\ndata: y\n\ndata: z\n\n", "x".repeat(1000));
    let told = decode_all(100, stream.as_bytes().chunks(10));
    assert_eq!(told.events[0], Err(EventTooLong { bytes: 1018, limit: 100 }));
    assert_eq!(told.events[1], Ok(event("message", "z", "1")));
}
