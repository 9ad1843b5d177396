//! The conversation that a plan and a summary leave. The record keeps every original message; this
//! is what the model sees.

use std::sync::Arc;

use angelia_core::model::Content;

use super::{
    digest::{cut_messages, cut_results, digest_results},
    plan::CompactionPlan,
};
use crate::native::provider::{AssistantMessage, Message};

const SUMMARY_NOTE: &str = "[The earlier part of this conversation was replaced by this summary. \
                            It is a record, not a new request.]";
const NO_SUMMARY_NOTE: &str = "[The earlier part of this conversation was left out, because it was \
                               too long and could not be summarised. Ask for what you need of it.]";

/// Separates the summary from a head that ends with a user message or tool results. Some servers
/// reject two user messages in a row, and the summary must not be merged into the head.
const GAP_NOTE: &str = "[A part of this conversation is left out here. Its summary follows.]";

/// A plan and its summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub plan: CompactionPlan,
    /// `None` if the messages were left out without a summary.
    pub summary: Option<Arc<str>>,
}

impl Compaction {
    /// Returns the messages that remain; `None` if the plan does not fit this conversation.
    pub fn shorten(&self, messages: &[Message]) -> Option<Vec<Message>> {
        let CompactionPlan { head, head_tokens, kept, tail, .. } = self.plan;
        let kept = kept.map(|place| messages.get(place).cloned());
        if head > tail || tail > messages.len() || matches!(kept, Some(None)) {
            return None;
        }
        let mut out = cut_messages(&messages[..head], head_tokens);
        if !self.plan.only_trims() {
            if needs_gap(&out) {
                out.push(Message::Assistant(AssistantMessage::told(GAP_NOTE)));
            }
            out.push(Message::User(vec![Content::text(self.summary_text())]));
        }
        out.extend(kept.flatten());
        let tail = messages.iter().enumerate().skip(tail);
        out.extend(tail.map(|(place, message)| self.tail_message(place, message)));
        Some(out)
    }

    /// Returns the index of a message after the compaction; `None` if the summary has replaced it.
    pub fn place_of(&self, before: usize, messages: &[Message]) -> Option<usize> {
        let CompactionPlan { head, kept, tail, .. } = self.plan;
        if before < head || self.plan.only_trims() {
            return Some(before);
        }
        let after_summary = summary_end(messages, head);
        if kept == Some(before) {
            return Some(after_summary);
        }
        let tail_start = after_summary + usize::from(kept.is_some());
        before.checked_sub(tail).map(|place| tail_start + place)
    }

    fn summary_text(&self) -> String {
        match &self.summary {
            Some(summary) => format!("{SUMMARY_NOTE}\n\n{summary}"),
            None => NO_SUMMARY_NOTE.to_owned(),
        }
    }

    fn tail_message(&self, place: usize, message: &Message) -> Message {
        match message {
            Message::Results(batch) if place < self.plan.digest_until => {
                Message::Results(digest_results(batch))
            }
            Message::Results(batch) => Message::Results(cut_results(batch, self.plan.result_bytes)),
            other => other.clone(),
        }
    }
}

/// Returns whether a note must separate these messages from the summary.
fn needs_gap(head: &[Message]) -> bool {
    head.last().is_some_and(|last| !matches!(last, Message::Assistant(_)))
}

/// Returns the index of the first message after the summary, for a head of this length.
pub(super) fn summary_end(messages: &[Message], head: usize) -> usize {
    head + 1 + usize::from(needs_gap(&messages[..head.min(messages.len())]))
}
