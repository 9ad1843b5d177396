//! Sample answers, streamed and whole, that every dialect's encoder is tested with.

use std::{sync::Arc, time::Duration};

use angelia_core::model::{Failure, FailureKind, SessionId, ToolId, TurnId, Usage};
use angelia_frontends::http::dialect::{
    AnswerBlock, AnswerChunk, AnswerEncoder, AnswerEnd, AnswerHeader, BlockKind, CompleteAnswer,
    Dialect, StopReason,
};
use jiff::Timestamp;
use uuid::Uuid;

pub(crate) fn begin(part: u32) -> AnswerHeader {
    AnswerHeader {
        turn: TurnId::from_uuid(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001)),
        session: SessionId::from_uuid(Uuid::from_u128(2)),
        part,
        model: "claude/sonnet".into(),
        at: Timestamp::from_second(1_763_000_000).unwrap(),
    }
}

pub(crate) fn end(stop: StopReason, status: &'static str) -> AnswerEnd {
    AnswerEnd {
        stop,
        usage: Usage {
            input_tokens: 12,
            output_tokens: 34,
            cache_read_tokens: 500,
            cache_write_tokens: 60,
            ..Usage::default()
        },
        status,
    }
}

pub(crate) fn text(text: &str) -> AnswerBlock {
    AnswerBlock::Text(text.into())
}

pub(crate) fn reasoning(text: &str) -> AnswerBlock {
    AnswerBlock::Reasoning(text.into())
}

pub(crate) fn call(id: &str, name: &str, input: &str) -> AnswerBlock {
    AnswerBlock::Call {
        id: ToolId::new(id),
        name: name.into(),
        input: serde_json::from_str::<Box<_>>(input).map(Arc::from).unwrap(),
    }
}

pub(crate) fn failure(kind: FailureKind) -> Failure {
    Failure {
        retry_after: (kind == FailureKind::RateLimited).then_some(Duration::from_millis(1500)),
        ..Failure::new(kind, "it broke").with_hint("mend it")
    }
}

/// Returns one answer of every form.
pub(crate) fn answers() -> Vec<(&'static str, CompleteAnswer)> {
    let whole = |part, blocks, stop, status| CompleteAnswer {
        header: begin(part),
        blocks,
        end: end(stop, status),
    };
    let weather = || call("toolu_1", "get_weather", r#"{"city":"Paris"}"#);
    let time = || call("toolu_2", "get_time", "{}");
    let failed = || StopReason::Failed(failure(FailureKind::Agent));
    vec![
        ("text", whole(0, vec![text("Hello, \"world\"\n")], StopReason::EndTurn, "completed")),
        (
            "reasoning and two texts",
            whole(
                0,
                vec![reasoning("hm"), text("One."), text("Two.")],
                StopReason::EndTurn,
                "completed",
            ),
        ),
        (
            "parallel calls",
            whole(
                0,
                vec![text("Let me see."), weather(), time()],
                StopReason::Calls,
                "awaiting_tool_result",
            ),
        ),
        (
            "a call alone, in the second answer",
            whole(1, vec![weather()], StopReason::Calls, "awaiting_tool_result"),
        ),
        ("partial", whole(0, vec![text("So far")], StopReason::Partial, "partial")),
        ("too long", whole(0, vec![text("So far")], StopReason::MaxTokens, "partial")),
        ("refusal", whole(0, vec![text("I will not.")], StopReason::Refusal, "completed")),
        ("interrupted", whole(0, vec![text("So f")], StopReason::Interrupted, "interrupted")),
        ("failed after some text", whole(0, vec![text("So far")], failed(), "failed")),
        ("failed with nothing", whole(0, vec![], failed(), "failed")),
        ("nothing", whole(0, vec![], StopReason::EndTurn, "completed")),
    ]
}

/// Returns the same answer in chunks of a few characters.
pub(crate) fn chunks(whole: &CompleteAnswer) -> Vec<AnswerChunk> {
    let mut pieces = vec![AnswerChunk::Start(whole.header.clone())];
    for block in &whole.blocks {
        let (open, text): (BlockKind, &str) = match block {
            AnswerBlock::Text(text) => (BlockKind::Text, text),
            AnswerBlock::Reasoning(text) => (BlockKind::Reasoning, text),
            AnswerBlock::Call { id, name, input } => {
                let (id, name) = (id.clone(), Arc::clone(name));
                // A tool call without arguments may have no chunk at all.
                let input = input.get();
                let input = if input == "{}" { "" } else { input };
                (BlockKind::Call { id, name }, input)
            }
        };
        pieces.push(AnswerChunk::Open(open));
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(9) {
            pieces.push(AnswerChunk::More(piece.iter().collect::<String>().into()));
        }
        pieces.push(AnswerChunk::Close);
    }
    pieces.push(AnswerChunk::End(whole.end.clone()));
    pieces
}

pub(crate) fn streamed<D: Dialect>(dialect: &D, whole: &CompleteAnswer) -> String {
    let mut encoder = dialect.encoder(&whole.header);
    let mut out = Vec::new();
    for piece in chunks(whole) {
        encoder.encode(&piece, &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// Formats the object with one field per line.
pub(crate) fn pretty(json: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}
