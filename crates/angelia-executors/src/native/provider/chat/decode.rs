//! Decodes the chunks of a Chat Completions answer into events.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{
    super::{
        AnswerPart, ProviderError, ProviderEvent, Reasoning, ReasoningSeal, ReportedTokens,
        StopReason,
        frame_json::{read_frame, unknown_frame},
    },
    calls::CallAssembly,
    details::DetailAssembly,
    think_tags::ThinkTags,
    wire::{ChatChunk, ChatDelta, ChatUsage, ContentPart},
};
use crate::lenient::BorrowedStr;

/// The frame after the last chunk.
const END_OF_STREAM: &str = "[DONE]";

#[derive(Debug, Default)]
pub struct ChatDecoder {
    place: u64,
    begun: bool,
    /// The part that is being written.
    open: Option<OpenPart>,
    tags: ThinkTags,
    calls: CallAssembly,
    details: DetailAssembly,
    stop: Option<StopReason>,
    ended: bool,
}

#[derive(Debug)]
enum OpenPart {
    Text(String),
    Reasoning(String),
}

impl ChatDecoder {
    pub(in super::super) fn new(place: u64) -> Self {
        Self { place, ..Self::default() }
    }

    pub(in super::super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(in super::super) fn decode_frame(&mut self, data: &str, out: &mut Vec<ProviderEvent>) {
        if data.trim() == END_OF_STREAM {
            self.ended = true;
            return;
        }
        let was_read = read_frame(data, |text| {
            let chunk: ChatChunk<'_> = serde_json::from_str(text)?;
            self.handle_chunk(text, &chunk, out);
            Ok(())
        });
        if !was_read {
            out.push(unknown_frame("chunk", data));
        }
    }

    /// Decodes a complete answer, which is a chunk whose delta has another name.
    pub(in super::super) fn decode_document(&mut self, body: &str, out: &mut Vec<ProviderEvent>) {
        self.decode_frame(body, out);
    }

    pub(in super::super) fn end(mut self, out: &mut Vec<ProviderEvent>) {
        if let Some(held) = self.tags.finish() {
            self.write(held, out);
        }
        self.close_part(out);
        let Some(stop) = self.stop.take() else { return };
        if let Some(details) = self.details.finish() {
            let seal = ReasoningSeal::Details(details);
            let reasoning = Reasoning { text: "".into(), seal };
            out.push(ProviderEvent::Part(AnswerPart::Reasoning(reasoning)));
        }
        let stop = stop.with_calls(!self.calls.is_empty());
        let calls = self.calls.finish(self.place).into_iter().map(AnswerPart::Call);
        out.extend(calls.map(ProviderEvent::Part));
        out.push(ProviderEvent::Stop(stop));
    }

    fn handle_chunk(&mut self, text: &str, chunk: &ChatChunk<'_>, out: &mut Vec<ProviderEvent>) {
        if chunk.error.is_some() {
            self.ended = true;
            out.push(ProviderEvent::Error(ProviderError::from_frame(text)));
            return;
        }
        let is_chunk = chunk.choices.0.is_some() || chunk.usage.0.is_some();
        if !is_chunk {
            out.push(unknown_frame("chunk", text));
            return;
        }
        if !self.begun {
            self.begun = true;
            out.push(ProviderEvent::Begin {
                id: chunk.id.as_str().map(Arc::from),
                model: chunk.model.as_str().map(Arc::from),
            });
        }
        // We request only one choice.
        if let Some(choice) = chunk.choices.0.iter().flatten().next() {
            let delta = choice.delta.0.as_ref().or(choice.message.0.as_ref());
            if let Some(delta) = delta {
                self.handle_delta(delta, out);
            }
            if let Some(word) = choice.finish_reason.as_str() {
                self.finish(word, text, out);
            }
        }
        if let Some(usage) = chunk.usage.get() {
            out.push(ProviderEvent::Usage(usage.tokens()));
        }
    }

    fn handle_delta(&mut self, delta: &ChatDelta<'_>, out: &mut Vec<ProviderEvent>) {
        // Some servers send the same reasoning under both names.
        let texts = [delta.reasoning_content.as_str(), delta.reasoning.as_str()];
        if let Some(thought) = texts.into_iter().flatten().find(|text| !text.is_empty()) {
            // A server that separates reasoning leaves no tags in the text.
            if let Some(held) = self.tags.finish() {
                self.write(held, out);
            }
            self.write(ProviderEvent::ReasoningDelta(thought.into()), out);
        }
        if let Some(details) = delta.reasoning_details {
            self.details.add(details);
        }
        let text = delta.content.map(content_text).unwrap_or_default();
        let refusal = delta.refusal.as_str().unwrap_or_default();
        for text in [&*text, refusal] {
            for piece in self.tags.split(text) {
                self.write(piece, out);
            }
        }
        for piece in delta.tool_calls.0.iter().flatten() {
            if let Some(name) = self.calls.add(piece) {
                out.push(ProviderEvent::CallBegin { name: name.into() });
            }
        }
    }

    /// Adds a delta to its part. Ends an open part of the other kind.
    fn write(&mut self, delta: ProviderEvent, out: &mut Vec<ProviderEvent>) {
        let is_other = matches!(
            (&delta, &self.open),
            (ProviderEvent::TextDelta(_), Some(OpenPart::Reasoning(_)))
                | (ProviderEvent::ReasoningDelta(_), Some(OpenPart::Text(_)))
        );
        if is_other {
            self.close_part(out);
        }
        match (&delta, &mut self.open) {
            (ProviderEvent::TextDelta(more), Some(OpenPart::Text(text)))
            | (ProviderEvent::ReasoningDelta(more), Some(OpenPart::Reasoning(text))) => {
                text.push_str(more);
            }
            (ProviderEvent::ReasoningDelta(more), open) => {
                *open = Some(OpenPart::Reasoning(more.to_string()));
            }
            (ProviderEvent::TextDelta(more), open) => {
                *open = Some(OpenPart::Text(more.to_string()));
            }
            _ => {}
        }
        out.push(delta);
    }

    fn close_part(&mut self, out: &mut Vec<ProviderEvent>) {
        let part = self.open.take().map(|open| match open {
            OpenPart::Text(text) => AnswerPart::Text(text.into()),
            OpenPart::Reasoning(text) => {
                let seal = ReasoningSeal::Plain;
                AnswerPart::Reasoning(Reasoning { text: text.into(), seal })
            }
        });
        out.extend(part.map(ProviderEvent::Part));
    }

    fn finish(&mut self, word: &str, chunk: &str, out: &mut Vec<ProviderEvent>) {
        self.stop = Some(match word {
            "stop" | "eos" | "end_turn" => StopReason::EndTurn,
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" | "max_tokens" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refused,
            "error" => {
                out.push(ProviderEvent::Error(ProviderError::from_frame(chunk)));
                return;
            }
            other => StopReason::Other(other.into()),
        });
    }
}

impl ChatUsage {
    fn tokens(self) -> ReportedTokens {
        let details = self.prompt_tokens_details.get();
        let read = details.and_then(|details| details.cached_tokens.get());
        let read = read.or(self.prompt_cache_hit_tokens.get()).unwrap_or_default();
        let written = details.and_then(|details| details.cache_write_tokens.get());
        ReportedTokens::from_inclusive(
            self.prompt_tokens.get().unwrap_or_default(),
            self.completion_tokens.get().unwrap_or_default(),
            read,
            written.unwrap_or_default(),
        )
    }
}

/// Returns the text of content, which is a string or a list of parts.
fn content_text(raw: &RawValue) -> String {
    if let Ok(text) = serde_json::from_str::<BorrowedStr<'_>>(raw.get()) {
        return text.0.into_owned();
    }
    let parts: Vec<ContentPart<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
    parts.iter().filter_map(|part| part.text.as_str()).collect()
}
