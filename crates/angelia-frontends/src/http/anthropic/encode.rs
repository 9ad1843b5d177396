//! Encodes answers for the Messages API: a stream of events, or one message.

use std::sync::Arc;

use angelia_core::model::Usage;
use axum::http::StatusCode;
use serde_json::value::RawValue;

use super::{
    super::dialect::{
        self, Ask, Begin, Block, Dialect, DialectError, Encoder, End, Piece, Stop, Whole,
        WholeBlock,
    },
    errors, wire,
};

/// A placeholder for the vendor's signature of a thinking block, which we never see. Clients keep
/// thinking blocks only with a signature.
pub(super) const SIGNATURE: &str = "YW5nZWxpYQ==";

/// The dialect of `POST /v1/messages`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Messages {
    /// Includes thinking blocks. A caller that did not ask for them expects text in the first
    /// block.
    pub thinking: bool,
}

impl Dialect for Messages {
    type Encoder = Stream;

    fn encoder(&self, _ask: &Ask, _begin: &Begin) -> Stream {
        Stream { thinking: self.thinking, index: 0, open: None }
    }

    fn whole(&self, _ask: &Ask, whole: &Whole) -> Vec<u8> {
        let shown = whole.blocks.iter().filter_map(|block| match block {
            WholeBlock::Text(text) => (!text.is_empty()).then_some(wire::Block::Text { text }),
            WholeBlock::Reasoning(text) => {
                let shown = self.thinking && !text.is_empty();
                shown.then_some(wire::Block::Thinking { thinking: text, signature: SIGNATURE })
            }
            WholeBlock::Call { id, name, input } => {
                Some(wire::Block::ToolUse { id: id.as_str(), name, input: object(input) })
            }
        });
        let mut content: Vec<wire::Block<'_>> = shown.collect();
        if content.is_empty() {
            content.push(NOTHING);
        }
        let message = message(&whole.begin, content, &whole.end);
        // Writing text into memory cannot fail.
        serde_json::to_vec(&message).unwrap_or_default()
    }

    fn error(error: &DialectError) -> (StatusCode, Vec<u8>) {
        errors::body(error)
    }

    fn keep_alive() -> &'static [u8] {
        b"event: ping\ndata: {\"type\":\"ping\"}\n\n"
    }
}

/// An empty text block: clients look for text in an answer even if it has none.
const NOTHING: wire::Block<'static> = wire::Block::Text { text: "" };

/// The state of one stream.
#[derive(Debug)]
pub struct Stream {
    thinking: bool,
    /// The index of the open block, or of the next one.
    index: u32,
    open: Option<Open>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Open {
    /// Not sent yet: the client would send an empty block back, which the API refuses.
    Promised(Channel),
    Text,
    Thinking,
    Call,
    /// Not sent at all.
    Hidden,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Text,
    Thinking,
}

impl Encoder for Stream {
    fn piece(&mut self, piece: &Piece, out: &mut Vec<u8>) {
        match piece {
            Piece::Begin(begin) => event(out, &start(begin)),
            Piece::Open(block) => self.open(block, out),
            Piece::More(text) if text.is_empty() => {}
            Piece::More(text) => self.more(text, out),
            Piece::Close => self.close(out),
            Piece::End(end) => self.end(end, out),
        }
    }
}

impl Stream {
    fn open(&mut self, block: &Block, out: &mut Vec<u8>) {
        // Close a block that is still open: clients cannot read nested blocks.
        self.close(out);
        self.open = Some(match block {
            Block::Text => Open::Promised(Channel::Text),
            Block::Reasoning if self.thinking => Open::Promised(Channel::Thinking),
            Block::Reasoning => Open::Hidden,
            Block::Call { id, name } => {
                let block = wire::Block::ToolUse { id: id.as_str(), name, input: empty_object() };
                self.start(block, out);
                Open::Call
            }
        });
    }

    fn start(&self, content_block: wire::Block<'_>, out: &mut Vec<u8>) {
        let index = self.index;
        let start = wire::Event::ContentBlockStart { index, content_block };
        event(out, &start);
    }

    fn more(&mut self, text: &str, out: &mut Vec<u8>) {
        if let Some(Open::Promised(channel)) = self.open {
            self.open = Some(match channel {
                Channel::Text => {
                    self.start(NOTHING, out);
                    Open::Text
                }
                Channel::Thinking => {
                    let block = wire::Block::Thinking { thinking: "", signature: "" };
                    self.start(block, out);
                    Open::Thinking
                }
            });
        }
        let delta = match self.open {
            Some(Open::Text) => wire::Delta::TextDelta { text },
            Some(Open::Thinking) => wire::Delta::ThinkingDelta { thinking: text },
            Some(Open::Call) => wire::Delta::InputJsonDelta { partial_json: text },
            Some(Open::Hidden | Open::Promised(_)) | None => return,
        };
        self.delta(delta, out);
    }

    fn delta(&self, delta: wire::Delta<'_>, out: &mut Vec<u8>) {
        let index = self.index;
        event(out, &wire::Event::ContentBlockDelta { index, delta });
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        match self.open.take() {
            None | Some(Open::Hidden | Open::Promised(_)) => return,
            Some(Open::Thinking) => {
                let signature = SIGNATURE;
                self.delta(wire::Delta::SignatureDelta { signature }, out);
            }
            Some(Open::Text | Open::Call) => {}
        }
        self.stop(out);
    }

    fn stop(&mut self, out: &mut Vec<u8>) {
        let index = self.index;
        event(out, &wire::Event::ContentBlockStop { index });
        self.index += 1;
    }

    fn end(&mut self, end: &End, out: &mut Vec<u8>) {
        self.close(out);
        if self.index == 0 {
            self.start(NOTHING, out);
            self.stop(out);
        }
        let delta =
            wire::Event::MessageDelta { delta: ending(&end.stop), usage: usage(&end.usage) };
        event(out, &delta);
        event(out, &wire::Event::MessageStop);
    }
}

fn start(begin: &Begin) -> wire::Event<'_> {
    wire::Event::MessageStart {
        message: wire::Message {
            id: message_id(begin),
            kind: "message",
            role: "assistant",
            model: &begin.model,
            content: Vec::new(),
            ending: wire::Ending::default(),
            // The usage follows at the end.
            usage: wire::Usage::default(),
        },
    }
}

fn message<'a>(begin: &'a Begin, content: Vec<wire::Block<'a>>, end: &End) -> wire::Message<'a> {
    wire::Message {
        id: message_id(begin),
        kind: "message",
        role: "assistant",
        model: &begin.model,
        content,
        ending: ending(&end.stop),
        usage: usage(&end.usage),
    }
}

/// Returns the message id. A turn has several answers if it waits for the caller's tools.
fn message_id(begin: &Begin) -> String {
    let turn = begin.turn.as_uuid().simple();
    match begin.part {
        0 => format!("msg_{turn}"),
        part => format!("msg_{turn}_{part}"),
    }
}

fn ending(stop: &Stop) -> wire::Ending {
    let reason = match stop {
        // The text already says what went wrong. An error here would make clients run the request
        // again.
        Stop::EndTurn | Stop::Failed(_) | Stop::Interrupted => "end_turn",
        Stop::Calls => "tool_use",
        Stop::Partial => "pause_turn",
        Stop::MaxTokens => "max_tokens",
        Stop::Word(_) => "stop_sequence",
        Stop::Refusal => "refusal",
    };
    wire::Ending {
        stop_reason: Some(reason),
        stop_sequence: match stop {
            Stop::Word(word) => Some(Arc::clone(word)),
            _ => None,
        },
    }
}

fn usage(usage: &Usage) -> wire::Usage {
    wire::Usage {
        input_tokens: usage.input_tokens,
        cache_creation_input_tokens: usage.cache_write_tokens,
        cache_read_input_tokens: usage.cache_read_tokens,
        output_tokens: usage.output_tokens,
    }
}

/// Replaces a non-object with `{}`: clients expect an object, whatever the model wrote.
fn object(input: &RawValue) -> &RawValue {
    if dialect::json::is_object(input) { input } else { empty_object() }
}

fn empty_object() -> &'static RawValue {
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}

/// Writes one event. JSON has no line breaks, so one `data` line carries it.
fn event(out: &mut Vec<u8>, event: &wire::Event<'_>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(event.name().as_bytes());
    out.extend_from_slice(b"\ndata: ");
    // Writing text into memory cannot fail.
    let _infallible = serde_json::to_writer(&mut *out, event);
    out.extend_from_slice(b"\n\n");
}
