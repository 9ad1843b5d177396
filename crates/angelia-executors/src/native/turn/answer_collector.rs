//! Turns the events of an answer into events of the turn, and collects what the loop needs.

use std::sync::Arc;

use angelia_core::{
    model::{BlockId, EventKind, TextChannel},
    ports::AgentEvent,
};

use crate::{
    emit::{emit_event, emit_native},
    native::{
        provider::{
            AnswerPart, ModelCall, ProviderEvent, Reasoning, ReasoningSeal, ReceivedCall,
            ReportedTokens, StopReason,
        },
        record::RecordedPart,
        text_calls::TextCall,
    },
};

/// The answer that is being read.
#[derive(Debug, Default)]
pub(super) struct AnswerCollector {
    next_block: BlockId,
    open_text: Option<OpenBlock>,
    open_reasoning: Option<OpenBlock>,
    answer: Answer,
}

/// A block that is being written.
#[derive(Debug)]
struct OpenBlock {
    id: BlockId,
    text: String,
}

/// An answer as received so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    parts: Vec<CollectedPart>,
    /// All text of the answer.
    pub(super) text: String,
    pub(super) tokens: Option<ReportedTokens>,
    /// `None` if the answer broke off.
    pub(super) stop: Option<StopReason>,
}

#[derive(Debug)]
enum CollectedPart {
    Text,
    Reasoning { is_shown: bool, seal: ReasoningSeal },
    Call(ReceivedCall),
}

impl AnswerCollector {
    pub(super) fn has_shown_text(&self) -> bool {
        !self.answer.text.is_empty() || self.open_text.is_some()
    }

    pub(super) fn take(&mut self, event: ProviderEvent, out: &mut Vec<AgentEvent>) {
        match event {
            ProviderEvent::TextDelta(text) => self.write(TextChannel::Answer, text, out),
            ProviderEvent::ReasoningDelta(text) => self.write(TextChannel::Reasoning, text, out),
            ProviderEvent::Part(AnswerPart::Text(text)) => {
                if self.complete(TextChannel::Answer, Arc::clone(&text), out) {
                    self.answer.text.push_str(&text);
                    self.answer.parts.push(CollectedPart::Text);
                }
            }
            ProviderEvent::Part(AnswerPart::Reasoning(Reasoning { text, seal })) => {
                let is_shown = self.complete(TextChannel::Reasoning, text, out);
                self.answer.parts.push(CollectedPart::Reasoning { is_shown, seal });
            }
            ProviderEvent::Part(AnswerPart::Call(call)) => {
                self.answer.parts.push(CollectedPart::Call(call));
            }
            ProviderEvent::Usage(tokens) => self.answer.tokens = Some(tokens),
            ProviderEvent::Stop(stop) => self.answer.stop = Some(stop),
            ProviderEvent::Unknown { name, raw } => emit_native(&name, &raw, out),
            ProviderEvent::Begin { .. }
            | ProviderEvent::CallBegin { .. }
            | ProviderEvent::Error(_)
            | ProviderEvent::KeepAlive => {}
        }
    }

    fn open_block(&mut self, channel: TextChannel) -> &mut Option<OpenBlock> {
        match channel {
            TextChannel::Answer => &mut self.open_text,
            TextChannel::Reasoning => &mut self.open_reasoning,
        }
    }

    fn new_block(&mut self) -> OpenBlock {
        self.next_block += 1;
        OpenBlock { id: self.next_block - 1, text: String::new() }
    }

    fn write(&mut self, channel: TextChannel, text: Arc<str>, out: &mut Vec<AgentEvent>) {
        let open = self.open_block(channel).take();
        let mut open = open.unwrap_or_else(|| self.new_block());
        open.text.push_str(&text);
        let block = open.id;
        *self.open_block(channel) = Some(open);
        emit_event(EventKind::Delta { block, channel, text }, out);
    }

    /// Completes a block with its text. Returns whether there is any text.
    fn complete(
        &mut self,
        channel: TextChannel,
        text: Arc<str>,
        out: &mut Vec<AgentEvent>,
    ) -> bool {
        let open = self.open_block(channel).take();
        let has_text = !text.is_empty();
        if has_text || open.is_some() {
            let block = open.unwrap_or_else(|| self.new_block()).id;
            emit_event(EventKind::Block { block, channel, text }, out);
        }
        has_text
    }

    /// Completes the blocks of an answer that is no longer read, with the text that was shown.
    pub(super) fn complete_open_blocks(&mut self, out: &mut Vec<AgentEvent>) {
        for channel in [TextChannel::Reasoning, TextChannel::Answer] {
            if let Some(OpenBlock { id, text }) = self.open_block(channel).take() {
                emit_event(EventKind::Block { block: id, channel, text: text.into() }, out);
            }
        }
    }

    /// Returns the answer, and begins the next one.
    pub(super) fn finish(&mut self) -> Answer {
        std::mem::take(&mut self.answer)
    }
}

impl Answer {
    pub(super) fn calls(&self) -> impl Iterator<Item = &ReceivedCall> {
        self.parts.iter().filter_map(|part| match part {
            CollectedPart::Call(call) => Some(call),
            CollectedPart::Text | CollectedPart::Reasoning { .. } => None,
        })
    }

    /// Returns the length of everything that the model wrote, except its reasoning.
    pub(super) fn bytes(&self) -> usize {
        let calls = self.calls().map(|call| call.name.len() + call.arguments.len());
        self.text.len() + calls.sum::<usize>()
    }

    /// Adds calls that the model wrote into its text. `place` makes their ids unique.
    pub(super) fn add_text_calls(&mut self, calls: Vec<TextCall>, place: usize) {
        let calls = calls.into_iter().enumerate().map(|(number, call)| ReceivedCall {
            id: format!("text_call_{place}_{number}").into(),
            name: call.name,
            arguments: call.arguments,
            extra: None,
        });
        self.parts.extend(calls.map(CollectedPart::Call));
    }

    /// Keeps only the text of an answer that broke off, because its reasoning and calls may be
    /// incomplete.
    pub(super) fn keep_text(&mut self) {
        self.parts.retain(|part| matches!(part, CollectedPart::Text));
    }

    /// Returns the parts for the record, with the calls as they were understood, in their order.
    pub(super) fn recorded_parts(&self, calls: Vec<ModelCall>) -> Vec<RecordedPart> {
        let mut calls = calls.into_iter();
        let parts = self.parts.iter().filter_map(|part| match part {
            CollectedPart::Text => Some(RecordedPart::Text),
            CollectedPart::Reasoning { is_shown, seal } => {
                Some(RecordedPart::Reasoning { is_shown: *is_shown, seal: seal.clone() })
            }
            CollectedPart::Call(_) => calls.next().map(RecordedPart::Call),
        });
        parts.collect()
    }
}
