//! Golden answers: the order of the events, byte for byte, and the bodies.

use std::sync::Arc;

use angelia_core::model::{Failure, FailureKind, RawJson, SessionId, ToolId, TurnId, Usage};
use angelia_frontends::http::{
    anthropic::{Messages, decode},
    dialect::{Ask, Begin, Block, Dialect as _, Encoder as _, End, Piece, Stop, Whole, WholeBlock},
};
use serde_json::value::RawValue;
use uuid::Uuid;

fn begin(part: u32) -> Begin {
    Begin {
        turn: TurnId::from_uuid(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001)),
        session: SessionId::from_uuid(Uuid::from_u128(2)),
        part,
        model: "claude/sonnet".into(),
        at: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn end(stop: Stop) -> End {
    End {
        stop,
        usage: Usage {
            input_tokens: 11,
            output_tokens: 25,
            cache_read_tokens: 3000,
            cache_write_tokens: 120,
            ..Usage::default()
        },
        status: "completed",
    }
}

fn ask() -> Ask {
    let body = br#"{"model":"claude/sonnet","messages":[{"role":"user","content":"hi"}]}"#;
    decode(body).unwrap().0
}

fn call(id: &str) -> Block {
    Block::Call { id: ToolId::new(id), name: "get_weather".into() }
}

fn stream(dialect: Messages, pieces: &[Piece]) -> String {
    let mut encoder = dialect.encoder(&ask(), &begin(0));
    let mut out = Vec::new();
    for piece in pieces {
        encoder.piece(piece, &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// One block, filled.
fn block(block: Block, text: &[&str]) -> Vec<Piece> {
    let mut pieces = vec![Piece::Open(block)];
    pieces.extend(text.iter().map(|text| Piece::More((*text).into())));
    pieces.push(Piece::Close);
    pieces
}

fn answer(blocks: &[Vec<Piece>], stop: Stop) -> Vec<Piece> {
    let mut pieces = vec![Piece::Begin(begin(0))];
    pieces.extend(blocks.concat());
    pieces.push(Piece::End(end(stop)));
    pieces
}

#[test]
fn text() {
    let said = block(Block::Text, &["Hel", "lo \"you\"\n", "日本"]);
    insta::assert_snapshot!(stream(Messages::default(), &answer(&[said], Stop::EndTurn)));
}

#[test]
fn thoughts_text_and_parallel_calls() {
    let blocks = [
        block(Block::Reasoning, &["Let me ", "think."]),
        block(Block::Text, &["I will look."]),
        block(call("toolu_1"), &[r#"{"city":"#, r#""Athens"}"#]),
        block(call("toolu_2"), &[r#"{"city":"Oslo"}"#]),
    ];
    let pieces = answer(&blocks, Stop::Calls);
    let dialect = Messages { thinking: true };
    insta::assert_snapshot!(stream(dialect, &pieces));
}

#[test]
fn thoughts_are_shown_to_those_who_asked() {
    let blocks = [block(Block::Reasoning, &["hm"]), block(Block::Text, &["Yes."])];
    let shown = stream(Messages::default(), &answer(&blocks, Stop::EndTurn));
    assert!(!shown.contains("hm") && !shown.contains("thinking"), "{shown}");
    assert!(shown.contains(r#""index":0,"content_block":{"type":"text""#), "{shown}");
}

#[test]
fn an_answer_without_words_has_an_empty_text() {
    let empty = [block(Block::Text, &["", ""]), block(Block::Reasoning, &[])];
    insta::assert_snapshot!(stream(Messages::default(), &answer(&empty, Stop::EndTurn)));
    let nothing = stream(Messages::default(), &answer(&[], Stop::EndTurn));
    assert_eq!(nothing, stream(Messages::default(), &answer(&empty, Stop::EndTurn)));
}

#[test]
fn a_block_that_was_left_open_is_closed() {
    let mut pieces = vec![Piece::Begin(begin(0))];
    pieces.extend([Piece::Open(Block::Text), Piece::More("a".into())]);
    pieces.extend(block(call("toolu_1"), &["{}"]));
    pieces.push(Piece::Open(Block::Text));
    pieces.push(Piece::More("b".into()));
    pieces.push(Piece::End(end(Stop::EndTurn)));
    let shown = stream(Messages::default(), &pieces);
    assert_eq!(shown.matches("event: content_block_start").count(), 3);
    assert_eq!(shown.matches("event: content_block_stop").count(), 3);
}

#[test]
fn every_reason_to_stop() {
    let failed = Failure::new(FailureKind::Agent, "it died");
    let reasons = [
        (Stop::EndTurn, "end_turn"),
        (Stop::Calls, "tool_use"),
        (Stop::Partial, "pause_turn"),
        (Stop::MaxTokens, "max_tokens"),
        (Stop::Refusal, "refusal"),
        (Stop::Failed(failed), "end_turn"),
        (Stop::Interrupted, "end_turn"),
    ];
    for (stop, word) in reasons {
        let shown = stream(Messages::default(), &answer(&[], stop.clone()));
        let wanted = format!(r#""stop_reason":"{word}""#);
        assert!(shown.contains(&wanted), "{stop:?}: {shown}");
        assert!(!shown.contains("event: error"), "{stop:?}: {shown}");
        let body = whole(Messages::default(), Vec::new(), stop);
        assert!(body.contains(&wanted), "{body}");
    }
}

#[test]
fn later_answers_of_a_turn_have_ids_of_their_own() {
    let mut encoder = Messages::default().encoder(&ask(), &begin(2));
    let mut out = Vec::new();
    encoder.piece(&Piece::Begin(begin(2)), &mut out);
    let shown = String::from_utf8(out).unwrap();
    assert!(shown.contains("8000000000000001_2\""), "{shown}");
}

#[test]
fn keep_alives_are_pings() {
    let ping = String::from_utf8(Messages::keep_alive().to_vec()).unwrap();
    assert_eq!(ping, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

fn whole(dialect: Messages, blocks: Vec<WholeBlock>, stop: Stop) -> String {
    let whole = Whole { begin: begin(0), blocks, end: end(stop) };
    String::from_utf8(dialect.whole(&ask(), &whole)).unwrap()
}

fn raw(json: &str) -> RawJson {
    RawValue::from_string(json.to_owned()).unwrap().into()
}

fn every_block() -> Vec<WholeBlock> {
    let called = |id: &str, input: &str| WholeBlock::Call {
        id: ToolId::new(id),
        name: Arc::from("get_weather"),
        input: raw(input),
    };
    vec![
        WholeBlock::Reasoning("Let me think.".into()),
        WholeBlock::Text("I will look.".into()),
        WholeBlock::Text("".into()),
        called("toolu_1", r#"{"city": "Athens"}"#),
        called("toolu_2", "null"),
    ]
}

#[test]
fn a_whole_message() {
    let dialect = Messages { thinking: true };
    insta::assert_snapshot!(whole(dialect, every_block(), Stop::Calls));
}

#[test]
fn a_whole_message_without_thoughts() {
    insta::assert_snapshot!(whole(Messages::default(), every_block(), Stop::Calls));
}

#[test]
fn a_whole_message_without_words() {
    insta::assert_snapshot!(whole(Messages::default(), Vec::new(), Stop::EndTurn));
}
