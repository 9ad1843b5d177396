//! Golden answers: the order of the events, byte for byte, and the bodies.

use std::sync::Arc;

use angelia_core::model::{Failure, FailureKind, RawJson, SessionId, ToolId, TurnId, Usage};
use angelia_frontends::http::{
    anthropic::MessagesDialect,
    dialect::{
        AnswerBlock, AnswerChunk, AnswerEncoder as _, AnswerEnd, AnswerHeader, BlockKind,
        CompleteAnswer, Dialect as _, StopReason,
    },
};
use serde_json::value::RawValue;
use uuid::Uuid;

fn begin(part: u32) -> AnswerHeader {
    AnswerHeader {
        turn: TurnId::from_uuid(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001)),
        session: SessionId::from_uuid(Uuid::from_u128(2)),
        part,
        model: "claude/sonnet".into(),
        at: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn end(stop: StopReason) -> AnswerEnd {
    AnswerEnd {
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

fn call(id: &str) -> BlockKind {
    BlockKind::Call { id: ToolId::new(id), name: "get_weather".into() }
}

fn stream(dialect: MessagesDialect, pieces: &[AnswerChunk]) -> String {
    let mut encoder = dialect.encoder(&begin(0));
    let mut out = Vec::new();
    for piece in pieces {
        encoder.encode(piece, &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// One block, filled.
fn block(block: BlockKind, text: &[&str]) -> Vec<AnswerChunk> {
    let mut pieces = vec![AnswerChunk::Open(block)];
    pieces.extend(text.iter().map(|text| AnswerChunk::More((*text).into())));
    pieces.push(AnswerChunk::Close);
    pieces
}

fn answer(blocks: &[Vec<AnswerChunk>], stop: StopReason) -> Vec<AnswerChunk> {
    let mut pieces = vec![AnswerChunk::Start(begin(0))];
    pieces.extend(blocks.concat());
    pieces.push(AnswerChunk::End(end(stop)));
    pieces
}

#[test]
fn text() {
    let said = block(BlockKind::Text, &["Hel", "lo \"you\"\n", "日本"]);
    insta::assert_snapshot!(stream(
        MessagesDialect::default(),
        &answer(&[said], StopReason::EndTurn)
    ));
}

#[test]
fn thoughts_text_and_parallel_calls() {
    let blocks = [
        block(BlockKind::Reasoning, &["Let me ", "think."]),
        block(BlockKind::Text, &["I will look."]),
        block(call("toolu_1"), &[r#"{"city":"#, r#""Athens"}"#]),
        block(call("toolu_2"), &[r#"{"city":"Oslo"}"#]),
    ];
    let pieces = answer(&blocks, StopReason::Calls);
    let dialect = MessagesDialect { thinking: true };
    insta::assert_snapshot!(stream(dialect, &pieces));
}

#[test]
fn thoughts_are_shown_to_those_who_asked() {
    let blocks = [block(BlockKind::Reasoning, &["hm"]), block(BlockKind::Text, &["Yes."])];
    let shown = stream(MessagesDialect::default(), &answer(&blocks, StopReason::EndTurn));
    assert!(!shown.contains("hm") && !shown.contains("thinking"), "{shown}");
    assert!(shown.contains(r#""index":0,"content_block":{"type":"text""#), "{shown}");
}

#[test]
fn an_answer_without_words_has_an_empty_text() {
    let empty = [block(BlockKind::Text, &["", ""]), block(BlockKind::Reasoning, &[])];
    insta::assert_snapshot!(stream(
        MessagesDialect::default(),
        &answer(&empty, StopReason::EndTurn)
    ));
    let nothing = stream(MessagesDialect::default(), &answer(&[], StopReason::EndTurn));
    assert_eq!(nothing, stream(MessagesDialect::default(), &answer(&empty, StopReason::EndTurn)));
}

#[test]
fn a_block_that_was_left_open_is_closed() {
    let mut pieces = vec![AnswerChunk::Start(begin(0))];
    pieces.extend([AnswerChunk::Open(BlockKind::Text), AnswerChunk::More("a".into())]);
    pieces.extend(block(call("toolu_1"), &["{}"]));
    pieces.push(AnswerChunk::Open(BlockKind::Text));
    pieces.push(AnswerChunk::More("b".into()));
    pieces.push(AnswerChunk::End(end(StopReason::EndTurn)));
    let shown = stream(MessagesDialect::default(), &pieces);
    assert_eq!(shown.matches("event: content_block_start").count(), 3);
    assert_eq!(shown.matches("event: content_block_stop").count(), 3);
}

#[test]
fn every_reason_to_stop() {
    let failed = Failure::new(FailureKind::Agent, "it died");
    let reasons = [
        (StopReason::EndTurn, "end_turn"),
        (StopReason::Calls, "tool_use"),
        (StopReason::Partial, "pause_turn"),
        (StopReason::MaxTokens, "max_tokens"),
        (StopReason::Refusal, "refusal"),
        (StopReason::Failed(failed), "end_turn"),
        (StopReason::Interrupted, "end_turn"),
    ];
    for (stop, word) in reasons {
        let shown = stream(MessagesDialect::default(), &answer(&[], stop.clone()));
        let wanted = format!(r#""stop_reason":"{word}""#);
        assert!(shown.contains(&wanted), "{stop:?}: {shown}");
        assert!(!shown.contains("event: error"), "{stop:?}: {shown}");
        let body = whole(MessagesDialect::default(), Vec::new(), stop);
        assert!(body.contains(&wanted), "{body}");
    }
}

#[test]
fn later_answers_of_a_turn_have_ids_of_their_own() {
    let mut encoder = MessagesDialect::default().encoder(&begin(2));
    let mut out = Vec::new();
    encoder.encode(&AnswerChunk::Start(begin(2)), &mut out);
    let shown = String::from_utf8(out).unwrap();
    assert!(shown.contains("8000000000000001_2\""), "{shown}");
}

#[test]
fn keep_alives_are_pings() {
    let ping = String::from_utf8(MessagesDialect::keep_alive().to_vec()).unwrap();
    assert_eq!(ping, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

fn whole(dialect: MessagesDialect, blocks: Vec<AnswerBlock>, stop: StopReason) -> String {
    let whole = CompleteAnswer { header: begin(0), blocks, end: end(stop) };
    String::from_utf8(dialect.encode_complete(&whole)).unwrap()
}

fn raw(json: &str) -> RawJson {
    RawValue::from_string(json.to_owned()).unwrap().into()
}

fn every_block() -> Vec<AnswerBlock> {
    let called = |id: &str, input: &str| AnswerBlock::Call {
        id: ToolId::new(id),
        name: Arc::from("get_weather"),
        input: raw(input),
    };
    vec![
        AnswerBlock::Reasoning("Let me think.".into()),
        AnswerBlock::Text("I will look.".into()),
        AnswerBlock::Text("".into()),
        called("toolu_1", r#"{"city": "Athens"}"#),
        called("toolu_2", "null"),
    ]
}

#[test]
fn a_whole_message() {
    let dialect = MessagesDialect { thinking: true };
    insta::assert_snapshot!(whole(dialect, every_block(), StopReason::Calls));
}

#[test]
fn a_whole_message_without_thoughts() {
    insta::assert_snapshot!(whole(MessagesDialect::default(), every_block(), StopReason::Calls));
}

#[test]
fn a_whole_message_without_words() {
    insta::assert_snapshot!(whole(MessagesDialect::default(), Vec::new(), StopReason::EndTurn));
}
