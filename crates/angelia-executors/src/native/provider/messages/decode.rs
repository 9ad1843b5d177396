//! Decodes the frames of a Messages answer into events.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::value::RawValue;

use super::{
    super::{
        AnswerPart, ProviderError, ProviderEvent, Reasoning, ReasoningSeal, ReceivedCall,
        ReportedTokens, StopReason,
        event::push_delta,
        frame_json::{read_frame, unknown_frame},
        stream::made_call_id,
    },
    wire::{AnswerBlock, BlockDelta, MessagesAnswer, MessagesFrame, MessagesUsage},
};

#[derive(Debug, Default)]
pub struct MessagesDecoder {
    place: u64,
    /// Blocks that have begun and not ended, by their index.
    open: BTreeMap<u64, OpenBlock>,
    calls: usize,
    usage: ReportedTokens,
    stop: Option<StopReason>,
    ended: bool,
}

#[derive(Debug)]
enum OpenBlock {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// A block of a kind that we do not know; its frames are passed on.
    Foreign,
}

impl MessagesDecoder {
    pub(in super::super) fn new(place: u64) -> Self {
        Self { place, ..Self::default() }
    }

    pub(in super::super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(in super::super) fn decode_frame(
        &mut self,
        name: &str,
        data: &str,
        out: &mut Vec<ProviderEvent>,
    ) {
        let was_read = read_frame(data, |text| {
            let frame: MessagesFrame<'_> = serde_json::from_str(text)?;
            let kind = frame.kind.as_str().unwrap_or(name).to_owned();
            self.handle_frame(&kind, text, &frame, out);
            Ok(())
        });
        if !was_read {
            out.push(unknown_frame(name, data));
        }
    }

    /// Decodes a complete message, as if each of its blocks had begun and ended in a stream.
    pub(in super::super) fn decode_document(&mut self, body: &str, out: &mut Vec<ProviderEvent>) {
        let was_read = read_frame(body, |text| {
            let message: MessagesAnswer<'_> = serde_json::from_str(text)?;
            if message.error.is_some() {
                out.push(ProviderEvent::Error(ProviderError::from_frame(text)));
                return Ok(());
            }
            self.begin(&message, out);
            for (index, block) in (0..).zip(message.content.0.iter().flatten()) {
                self.begin_block(index, block, text, out);
                self.end_block(index, out);
            }
            self.stop = message.stop_reason.as_str().map(stop_reason);
            Ok(())
        });
        if !was_read {
            out.push(unknown_frame("document", body));
        }
    }

    pub(in super::super) fn end(mut self, out: &mut Vec<ProviderEvent>) {
        if self.stop.is_none() {
            self.open.retain(|_, block| !matches!(block, OpenBlock::Call { .. }));
        }
        while let Some((index, _)) = self.open.first_key_value() {
            let index = *index;
            self.end_block(index, out);
        }
        let stop = self.stop.map(|stop| stop.with_calls(self.calls > 0));
        out.extend(stop.map(ProviderEvent::Stop));
    }

    fn handle_frame(
        &mut self,
        kind: &str,
        text: &str,
        frame: &MessagesFrame<'_>,
        out: &mut Vec<ProviderEvent>,
    ) {
        let index = frame.index.get().unwrap_or_default();
        match kind {
            "message_start" => {
                if let Some(message) = &frame.message.0 {
                    self.begin(message, out);
                }
            }
            "content_block_start" => match &frame.content_block.0 {
                Some(block) => self.begin_block(index, block, text, out),
                None => out.push(unknown_frame(kind, text)),
            },
            "content_block_delta" => match (&frame.delta.0, self.open.get_mut(&index)) {
                (Some(_), Some(OpenBlock::Foreign)) | (None, _) => {
                    out.push(unknown_frame(kind, text));
                }
                (Some(delta), Some(block)) => block.append(delta, out),
                // The block was never begun, but its text belongs to the answer all the same.
                (Some(delta), None) => {
                    let mut block = OpenBlock::for_delta(delta);
                    block.append(delta, out);
                    self.open.insert(index, block);
                }
            },
            "content_block_stop" => self.end_block(index, out),
            "message_delta" => {
                self.count(frame.usage.get(), out);
                let stop = frame.delta.0.as_ref().and_then(|delta| delta.stop_reason.as_str());
                self.stop = stop.map(stop_reason).or(self.stop.take());
            }
            "message_stop" => self.ended = true,
            "ping" => out.push(ProviderEvent::KeepAlive),
            "error" => {
                self.ended = true;
                out.push(ProviderEvent::Error(ProviderError::from_frame(text)));
            }
            _ => out.push(unknown_frame(kind, text)),
        }
    }

    fn begin(&mut self, message: &MessagesAnswer<'_>, out: &mut Vec<ProviderEvent>) {
        out.push(ProviderEvent::Begin {
            id: message.id.as_str().map(Arc::from),
            model: message.model.as_str().map(Arc::from),
        });
        self.count(message.usage.get(), out);
    }

    fn begin_block(
        &mut self,
        index: u64,
        block: &AnswerBlock<'_>,
        frame: &str,
        out: &mut Vec<ProviderEvent>,
    ) {
        // If the server forgot to end the last block with this index, it must not be lost.
        self.end_block(index, out);
        let text_of = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let open = match block.kind.as_str().unwrap_or_default() {
            "text" => {
                let text = text_of(block.text.as_str());
                push_delta(&text, ProviderEvent::TextDelta, out);
                OpenBlock::Text(text)
            }
            "thinking" => {
                let text = text_of(block.thinking.as_str());
                push_delta(&text, ProviderEvent::ReasoningDelta, out);
                OpenBlock::Thinking { text, signature: text_of(block.signature.as_str()) }
            }
            "redacted_thinking" => OpenBlock::Redacted(text_of(block.data.as_str())),
            "tool_use" => {
                let name = text_of(block.name.as_str());
                out.push(ProviderEvent::CallBegin { name: name.as_str().into() });
                // In a stream, the input is empty unless the server sends the whole call at once.
                let whole = block.input.map(RawValue::get).filter(|input| *input != "{}");
                let arguments = text_of(whole);
                OpenBlock::Call { id: text_of(block.id.as_str()), name, arguments }
            }
            kind => {
                out.push(unknown_frame(kind, frame));
                OpenBlock::Foreign
            }
        };
        self.open.insert(index, open);
    }

    fn end_block(&mut self, index: u64, out: &mut Vec<ProviderEvent>) {
        let part = match self.open.remove(&index) {
            Some(OpenBlock::Text(text)) if !text.is_empty() => AnswerPart::Text(text.into()),
            Some(OpenBlock::Thinking { text, signature }) => {
                let seal = if signature.is_empty() {
                    ReasoningSeal::Plain
                } else {
                    ReasoningSeal::Signature(signature.into())
                };
                AnswerPart::Reasoning(Reasoning { text: text.into(), seal })
            }
            Some(OpenBlock::Redacted(data)) => {
                let seal = ReasoningSeal::Redacted(data.into());
                AnswerPart::Reasoning(Reasoning { text: "".into(), seal })
            }
            Some(OpenBlock::Call { id, name, arguments }) => {
                let made = made_call_id(self.place, self.calls);
                self.calls += 1;
                let id = if id.is_empty() { made } else { id.into() };
                let arguments = arguments.into();
                AnswerPart::Call(ReceivedCall { id, name: name.into(), arguments, extra: None })
            }
            Some(OpenBlock::Text(_) | OpenBlock::Foreign) | None => return,
        };
        out.push(ProviderEvent::Part(part));
    }

    /// Updates the counts. They are cumulative, and a frame repeats only some of them.
    fn count(&mut self, usage: Option<MessagesUsage>, out: &mut Vec<ProviderEvent>) {
        let Some(usage) = usage else { return };
        let old = self.usage;
        self.usage = ReportedTokens {
            input: usage.input_tokens.get().unwrap_or(old.input),
            output: usage.output_tokens.get().unwrap_or(old.output),
            cache_read: usage.cache_read_input_tokens.get().unwrap_or(old.cache_read),
            cache_write: usage.cache_creation_input_tokens.get().unwrap_or(old.cache_write),
        };
        out.push(ProviderEvent::Usage(self.usage));
    }
}

impl OpenBlock {
    /// Returns an empty block of the kind that a delta belongs to.
    fn for_delta(delta: &BlockDelta<'_>) -> Self {
        if delta.partial_json.0.is_some() {
            Self::Call { id: String::new(), name: String::new(), arguments: String::new() }
        } else if delta.thinking.0.is_some() || delta.signature.0.is_some() {
            Self::Thinking { text: String::new(), signature: String::new() }
        } else {
            Self::Text(String::new())
        }
    }

    fn append(&mut self, delta: &BlockDelta<'_>, out: &mut Vec<ProviderEvent>) {
        match self {
            Self::Text(text) => {
                let more = delta.text.as_str().unwrap_or_default();
                text.push_str(more);
                push_delta(more, ProviderEvent::TextDelta, out);
            }
            Self::Thinking { text, signature } => {
                let more = delta.thinking.as_str().unwrap_or_default();
                text.push_str(more);
                push_delta(more, ProviderEvent::ReasoningDelta, out);
                signature.push_str(delta.signature.as_str().unwrap_or_default());
            }
            Self::Call { arguments, .. } => {
                arguments.push_str(delta.partial_json.as_str().unwrap_or_default());
            }
            Self::Redacted(_) | Self::Foreign => {}
        }
    }
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "pause_turn" => StopReason::Pause,
        "refusal" => StopReason::Refused,
        "model_context_window_exceeded" => StopReason::WindowExceeded,
        other => StopReason::Other(other.into()),
    }
}
