//! Encodes answers for the Messages API: a stream of events, or one message.

use std::sync::Arc;

use angelia_core::model::Usage;
use serde_json::value::RawValue;

use super::{
    super::{
        HttpError,
        dialect::{
            self, AnswerBlock, AnswerChunk, AnswerEncoder, AnswerEnd, AnswerHeader, BlockKind,
            CompleteAnswer, Dialect, StopReason,
        },
    },
    errors, wire,
};

/// A placeholder for the vendor's signature of a thinking block, which we never see. Clients keep
/// only thinking blocks with a signature.
pub(super) const PLACEHOLDER_SIGNATURE: &str = "YW5nZWxpYQ==";

/// The dialect of `POST /v1/messages`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagesDialect {
    /// Whether to include thinking blocks. A caller that did not ask for them expects text in the
    /// first block.
    pub thinking: bool,
}

impl Dialect for MessagesDialect {
    type Encoder = MessagesEncoder;

    fn encoder(&self, _header: &AnswerHeader) -> MessagesEncoder {
        MessagesEncoder { thinking: self.thinking, index: 0, open: None }
    }

    fn encode_complete(&self, answer: &CompleteAnswer) -> Vec<u8> {
        let blocks = answer.blocks.iter().filter_map(|block| match block {
            AnswerBlock::Text(text) => {
                (!text.is_empty()).then_some(wire::MessageBlock::Text { text })
            }
            AnswerBlock::Reasoning(text) => {
                let visible = self.thinking && !text.is_empty();
                visible.then_some(wire::MessageBlock::Thinking {
                    thinking: text,
                    signature: PLACEHOLDER_SIGNATURE,
                })
            }
            AnswerBlock::Call { id, name, input } => Some(wire::MessageBlock::ToolUse {
                id: id.as_str(),
                name,
                input: object_or_empty(input),
            }),
        });
        let mut content: Vec<wire::MessageBlock<'_>> = blocks.collect();
        if content.is_empty() {
            content.push(EMPTY_TEXT);
        }
        let message = message(&answer.header, content, &answer.end);
        // Writing to memory cannot fail.
        serde_json::to_vec(&message).unwrap_or_default()
    }

    fn encode_error(error: &HttpError) -> Vec<u8> {
        errors::error_body(error)
    }

    fn keep_alive() -> &'static [u8] {
        b"event: ping\ndata: {\"type\":\"ping\"}\n\n"
    }
}

/// An empty text block, because clients look for text even in an answer without any.
const EMPTY_TEXT: wire::MessageBlock<'static> = wire::MessageBlock::Text { text: "" };

/// The state of one stream.
#[derive(Debug)]
pub struct MessagesEncoder {
    thinking: bool,
    /// The index of the open block, or of the next one.
    index: u32,
    open: Option<OpenContentBlock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OpenContentBlock {
    /// Not sent yet: the client would send back an empty block, which the API refuses.
    Pending(PendingKind),
    Text,
    Thinking,
    Call,
    /// Never sent.
    Hidden,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingKind {
    Text,
    Thinking,
}

impl AnswerEncoder for MessagesEncoder {
    fn encode(&mut self, piece: &AnswerChunk, out: &mut Vec<u8>) {
        match piece {
            AnswerChunk::Start(header) => event(out, &start(header)),
            AnswerChunk::Open(block) => self.open(block, out),
            AnswerChunk::More(text) if text.is_empty() => {}
            AnswerChunk::More(text) => self.more(text, out),
            AnswerChunk::Close => self.close(out),
            AnswerChunk::End(end) => self.end(end, out),
        }
    }
}

impl MessagesEncoder {
    fn open(&mut self, block: &BlockKind, out: &mut Vec<u8>) {
        // Close a block that is still open: clients cannot read nested blocks.
        self.close(out);
        self.open = Some(match block {
            BlockKind::Text => OpenContentBlock::Pending(PendingKind::Text),
            BlockKind::Reasoning if self.thinking => {
                OpenContentBlock::Pending(PendingKind::Thinking)
            }
            BlockKind::Reasoning => OpenContentBlock::Hidden,
            BlockKind::Call { id, name } => {
                let block =
                    wire::MessageBlock::ToolUse { id: id.as_str(), name, input: empty_object() };
                self.start(block, out);
                OpenContentBlock::Call
            }
        });
    }

    fn start(&self, content_block: wire::MessageBlock<'_>, out: &mut Vec<u8>) {
        let index = self.index;
        let start = wire::MessagesEvent::ContentBlockStart { index, content_block };
        event(out, &start);
    }

    fn more(&mut self, text: &str, out: &mut Vec<u8>) {
        if let Some(OpenContentBlock::Pending(channel)) = self.open {
            self.open = Some(match channel {
                PendingKind::Text => {
                    self.start(EMPTY_TEXT, out);
                    OpenContentBlock::Text
                }
                PendingKind::Thinking => {
                    let block = wire::MessageBlock::Thinking { thinking: "", signature: "" };
                    self.start(block, out);
                    OpenContentBlock::Thinking
                }
            });
        }
        let delta = match self.open {
            Some(OpenContentBlock::Text) => wire::BlockDelta::TextDelta { text },
            Some(OpenContentBlock::Thinking) => wire::BlockDelta::ThinkingDelta { thinking: text },
            Some(OpenContentBlock::Call) => wire::BlockDelta::InputJsonDelta { partial_json: text },
            Some(OpenContentBlock::Hidden | OpenContentBlock::Pending(_)) | None => return,
        };
        self.delta(delta, out);
    }

    fn delta(&self, delta: wire::BlockDelta<'_>, out: &mut Vec<u8>) {
        let index = self.index;
        event(out, &wire::MessagesEvent::ContentBlockDelta { index, delta });
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        match self.open.take() {
            None | Some(OpenContentBlock::Hidden | OpenContentBlock::Pending(_)) => return,
            Some(OpenContentBlock::Thinking) => {
                let signature = PLACEHOLDER_SIGNATURE;
                self.delta(wire::BlockDelta::SignatureDelta { signature }, out);
            }
            Some(OpenContentBlock::Text | OpenContentBlock::Call) => {}
        }
        self.stop(out);
    }

    fn stop(&mut self, out: &mut Vec<u8>) {
        let index = self.index;
        event(out, &wire::MessagesEvent::ContentBlockStop { index });
        self.index += 1;
    }

    fn end(&mut self, end: &AnswerEnd, out: &mut Vec<u8>) {
        self.close(out);
        if self.index == 0 {
            self.start(EMPTY_TEXT, out);
            self.stop(out);
        }
        let delta = wire::MessagesEvent::MessageDelta {
            delta: stop_info(&end.stop),
            usage: usage(&end.usage),
        };
        event(out, &delta);
        event(out, &wire::MessagesEvent::MessageStop);
    }
}

fn start(header: &AnswerHeader) -> wire::MessagesEvent<'_> {
    wire::MessagesEvent::MessageStart {
        message: wire::MessagesResponse {
            id: message_id(header),
            kind: "message",
            role: "assistant",
            model: &header.model,
            content: Vec::new(),
            ending: wire::StopInfo::default(),
            // The usage follows at the end.
            usage: wire::MessagesUsage::default(),
        },
    }
}

fn message<'a>(
    header: &'a AnswerHeader,
    content: Vec<wire::MessageBlock<'a>>,
    end: &AnswerEnd,
) -> wire::MessagesResponse<'a> {
    wire::MessagesResponse {
        id: message_id(header),
        kind: "message",
        role: "assistant",
        model: &header.model,
        content,
        ending: stop_info(&end.stop),
        usage: usage(&end.usage),
    }
}

/// Returns the message id. A turn has several answers if it waits for the caller's tools.
fn message_id(header: &AnswerHeader) -> String {
    let turn = header.turn.as_uuid().simple();
    match header.part {
        0 => format!("msg_{turn}"),
        part => format!("msg_{turn}_{part}"),
    }
}

fn stop_info(stop: &StopReason) -> wire::StopInfo {
    let reason = match stop {
        // The text already reports the failure. An error here would make clients run the request
        // again.
        StopReason::EndTurn | StopReason::Failed(_) | StopReason::Interrupted => "end_turn",
        StopReason::Calls => "tool_use",
        StopReason::Partial => "pause_turn",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Word(_) => "stop_sequence",
        StopReason::Refusal => "refusal",
    };
    wire::StopInfo {
        stop_reason: Some(reason),
        stop_sequence: match stop {
            StopReason::Word(word) => Some(Arc::clone(word)),
            _ => None,
        },
    }
}

fn usage(usage: &Usage) -> wire::MessagesUsage {
    wire::MessagesUsage {
        input_tokens: usage.input_tokens,
        cache_creation_input_tokens: usage.cache_write_tokens,
        cache_read_input_tokens: usage.cache_read_tokens,
        output_tokens: usage.output_tokens,
    }
}

/// Replaces a non-object with `{}`, because clients expect an object.
fn object_or_empty(input: &RawValue) -> &RawValue {
    if dialect::json::is_object(input) { input } else { empty_object() }
}

fn empty_object() -> &'static RawValue {
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}

/// Writes one event. JSON has no line breaks, so one `data` line carries it.
fn event(out: &mut Vec<u8>, event: &wire::MessagesEvent<'_>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(event.name().as_bytes());
    out.extend_from_slice(b"\ndata: ");
    // Writing to memory cannot fail.
    let _infallible = serde_json::to_writer(&mut *out, event);
    out.extend_from_slice(b"\n\n");
}
