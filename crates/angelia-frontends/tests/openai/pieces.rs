//! Sample answers, streamed and whole, that every dialect's encoder is tested with.

use std::{sync::Arc, time::Duration};

use angelia_core::model::{Failure, FailureKind, SessionId, ToolId, TurnId, Usage};
use angelia_frontends::http::dialect::{
    Ask, Begin, Block, Dialect, Encoder, End, Output, Piece, Stop, ToolChoice, Whole, WholeBlock,
};
use jiff::Timestamp;
use uuid::Uuid;

pub(crate) fn begin(part: u32) -> Begin {
    Begin {
        turn: TurnId::from_uuid(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001)),
        session: SessionId::from_uuid(Uuid::from_u128(2)),
        part,
        model: "claude/sonnet".into(),
        at: Timestamp::from_second(1_763_000_000).unwrap(),
    }
}

pub(crate) fn end(stop: Stop, status: &'static str) -> End {
    End {
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

pub(crate) fn text(text: &str) -> WholeBlock {
    WholeBlock::Text(text.into())
}

pub(crate) fn reasoning(text: &str) -> WholeBlock {
    WholeBlock::Reasoning(text.into())
}

pub(crate) fn call(id: &str, name: &str, input: &str) -> WholeBlock {
    WholeBlock::Call {
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
pub(crate) fn answers() -> Vec<(&'static str, Whole)> {
    let whole =
        |part, blocks, stop, status| Whole { begin: begin(part), blocks, end: end(stop, status) };
    let weather = || call("toolu_1", "get_weather", r#"{"city":"Paris"}"#);
    let time = || call("toolu_2", "get_time", "{}");
    let failed = || Stop::Failed(failure(FailureKind::Agent));
    vec![
        ("text", whole(0, vec![text("Hello, \"world\"\n")], Stop::EndTurn, "completed")),
        (
            "reasoning and two texts",
            whole(0, vec![reasoning("hm"), text("One."), text("Two.")], Stop::EndTurn, "completed"),
        ),
        (
            "parallel calls",
            whole(
                0,
                vec![text("Let me see."), weather(), time()],
                Stop::Calls,
                "awaiting_tool_result",
            ),
        ),
        (
            "a call alone, in the second answer",
            whole(1, vec![weather()], Stop::Calls, "awaiting_tool_result"),
        ),
        ("partial", whole(0, vec![text("So far")], Stop::Partial, "partial")),
        ("too long", whole(0, vec![text("So far")], Stop::MaxTokens, "partial")),
        ("refusal", whole(0, vec![text("I will not.")], Stop::Refusal, "completed")),
        ("interrupted", whole(0, vec![text("So f")], Stop::Interrupted, "interrupted")),
        ("failed after some text", whole(0, vec![text("So far")], failed(), "failed")),
        ("failed with nothing", whole(0, vec![], failed(), "failed")),
        ("nothing", whole(0, vec![], Stop::EndTurn, "completed")),
    ]
}

/// Returns the same answer in chunks of a few characters.
pub(crate) fn pieces(whole: &Whole) -> Vec<Piece> {
    let mut pieces = vec![Piece::Begin(whole.begin.clone())];
    for block in &whole.blocks {
        let (open, text): (Block, &str) = match block {
            WholeBlock::Text(text) => (Block::Text, text),
            WholeBlock::Reasoning(text) => (Block::Reasoning, text),
            WholeBlock::Call { id, name, input } => {
                let (id, name) = (id.clone(), Arc::clone(name));
                // A tool call without arguments may have no chunk at all.
                let input = input.get();
                let input = if input == "{}" { "" } else { input };
                (Block::Call { id, name }, input)
            }
        };
        pieces.push(Piece::Open(open));
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(9) {
            pieces.push(Piece::More(piece.iter().collect::<String>().into()));
        }
        pieces.push(Piece::Close);
    }
    pieces.push(Piece::End(whole.end.clone()));
    pieces
}

pub(crate) fn streamed<D: Dialect>(dialect: &D, ask: &Ask, whole: &Whole) -> String {
    let mut encoder = dialect.encoder(ask, &whole.begin);
    let mut out = Vec::new();
    for piece in pieces(whole) {
        encoder.piece(&piece, &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// Formats the object with one field per line.
pub(crate) fn pretty(json: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

/// Returns any request; the encoders do not depend on it.
pub(crate) fn any_ask() -> Ask {
    Ask {
        model: "claude/sonnet".into(),
        system: None,
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        output: Output::Text,
        max_tokens: None,
        stop: Vec::new(),
        stream: true,
        previous: None,
        is_utility: false,
    }
}
