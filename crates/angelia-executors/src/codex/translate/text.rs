//! The text of messages, reasoning and plans.
//!
//! Deltas are provisional; the completed item settles its blocks. A retried stream starts over,
//! under the same item id or another one. The text of the broken stream is withdrawn as soon as
//! there is a replacement, and stays if there never is one.

use angelia_core::{
    model::{BlockId, EventKind, TextChannel},
    ports::AgentEvent,
};
use serde_json::value::RawValue;

use super::{
    CodexTranslator, MessageOwner, emit_event, emit_native,
    turn::{CodexTurn, emit_block},
};
use crate::codex::protocol::{item::ThreadItem, notification::NotificationParams};

/// The marker with which a message says that the turn was aborted.
const ABORT_MARKER: &str = "<turn_aborted>";

#[derive(Debug, Default)]
pub(super) struct TextBlocks(Vec<TextSlot>);

#[derive(Debug)]
struct TextSlot {
    item: Box<str>,
    part: ItemTextPart,
    channel: TextChannel,
    /// Our id for the block, once some text was shown.
    block: Option<BlockId>,
    /// The concatenated deltas.
    text: String,
    state: SlotState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Open,
    /// The stream broke off.
    Abandoned,
    Settled,
}

/// Selects one of the texts of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemTextPart {
    Whole,
    Summary(u32),
    Content(u32),
}

impl ItemTextPart {
    const fn channel(self) -> TextChannel {
        match self {
            Self::Whole => TextChannel::Answer,
            Self::Summary(_) | Self::Content(_) => TextChannel::Reasoning,
        }
    }
}

impl TextBlocks {
    fn find(&mut self, item: &str, part: ItemTextPart, state: SlotState) -> Option<&mut TextSlot> {
        (self.0.iter_mut())
            .find(|slot| slot.state == state && slot.part == part && *slot.item == *item)
    }

    fn push(&mut self, item: &str, part: ItemTextPart) -> &mut TextSlot {
        self.0.push_mut(TextSlot {
            item: item.into(),
            part,
            channel: part.channel(),
            block: None,
            text: String::new(),
            state: SlotState::Open,
        })
    }

    /// Marks the open texts as abandoned, because the stream broke off and is being retried.
    pub(super) fn abandon(&mut self) {
        for slot in &mut self.0 {
            if slot.state == SlotState::Open {
                slot.state = SlotState::Abandoned;
            }
        }
    }

    /// Withdraws the abandoned texts, because there is a replacement.
    pub(super) fn withdraw_abandoned(&mut self, out: &mut Vec<AgentEvent>) {
        self.withdraw(|slot| slot.state == SlotState::Abandoned, out);
    }

    fn withdraw(&mut self, which: impl Fn(&TextSlot) -> bool, out: &mut Vec<AgentEvent>) {
        self.0.retain(|slot| {
            let gone = which(slot);
            if gone
                && slot.state != SlotState::Settled
                && let Some(block) = slot.block
            {
                emit_block(block, slot.channel, "".into(), out);
            }
            !gone
        });
    }

    /// Ends the turn. Text that was shown stays and becomes whole blocks.
    pub(super) fn finish_all(&mut self, out: &mut Vec<AgentEvent>) {
        for slot in self.0.drain(..) {
            if slot.state != SlotState::Settled
                && let Some(block) = slot.block
            {
                emit_block(block, slot.channel, slot.text.into(), out);
            }
        }
    }
}

impl CodexTurn {
    fn add_delta(
        &mut self,
        item: &str,
        part: ItemTextPart,
        delta: &str,
        out: &mut Vec<AgentEvent>,
    ) {
        self.texts.withdraw_abandoned(out);
        if self.texts.find(item, part, SlotState::Open).is_none() {
            let block = self.new_block();
            self.texts.push(item, part).block = Some(block);
        }
        let Some(slot) = self.texts.find(item, part, SlotState::Open) else {
            return;
        };
        slot.text.push_str(delta);
        let Some(block) = slot.block else { return };
        let kind = EventKind::Delta { block, channel: slot.channel, text: delta.into() };
        emit_event(kind, out);
    }

    /// Withdraws the unsettled text of an item that starts, perhaps not for the first time.
    fn begin_text(&mut self, item: &str, out: &mut Vec<AgentEvent>) {
        self.texts.withdraw_abandoned(out);
        self.texts.withdraw(|slot| *slot.item == *item, out);
    }

    /// Settles one text of an item. Returns `false` if it was already settled.
    fn settle_text(
        &mut self,
        item: &str,
        part: ItemTextPart,
        whole: &str,
        out: &mut Vec<AgentEvent>,
    ) -> bool {
        self.texts.withdraw_abandoned(out);
        if self.texts.find(item, part, SlotState::Open).is_none() {
            if self.texts.find(item, part, SlotState::Settled).is_some() {
                return false;
            }
            let block = (!whole.is_empty()).then(|| self.new_block());
            self.texts.push(item, part).block = block;
        }
        if let Some(slot) = self.texts.find(item, part, SlotState::Open) {
            slot.state = SlotState::Settled;
            slot.text = String::new();
            if let Some(block) = slot.block {
                emit_block(block, slot.channel, whole.into(), out);
            }
        }
        true
    }

    /// Settles, as streamed, the texts that the completed item does not repeat.
    fn settle_remaining(&mut self, item: &str, out: &mut Vec<AgentEvent>) {
        for slot in &mut self.texts.0 {
            if *slot.item == *item && slot.state == SlotState::Open {
                slot.state = SlotState::Settled;
                if let Some(block) = slot.block {
                    let text = std::mem::take(&mut slot.text);
                    emit_block(block, slot.channel, text.into(), out);
                }
            }
        }
    }
}

impl CodexTranslator {
    /// Handles a delta of a message, a plan or reasoning.
    pub(super) fn on_text_delta(
        &mut self,
        method: &str,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) {
        let common = NotificationParams::parse(params);
        let (Some(item), Some(delta)) = (common.item_id.as_str(), common.delta.as_str()) else {
            return emit_native(method, params, out);
        };
        let part = match method {
            "item/reasoning/summaryTextDelta" => {
                ItemTextPart::Summary(common.summary_index.get().unwrap_or(0))
            }
            "item/reasoning/textDelta" => {
                ItemTextPart::Content(common.content_index.get().unwrap_or(0))
            }
            _ => ItemTextPart::Whole,
        };
        if delta.is_empty()
            || self.owner_of(&common.thread_id, &common.turn_id) != MessageOwner::OurTurn
        {
            return;
        }
        if let Some(turn) = self.turn.as_mut() {
            turn.resume_activity(out);
            turn.add_delta(item, part, delta, out);
        }
    }

    /// Handles the start of an item that consists of text.
    pub(super) fn on_text_started(&mut self, id: &str, out: &mut Vec<AgentEvent>) {
        if let Some(turn) = self.turn.as_mut() {
            turn.resume_activity(out);
            turn.begin_text(id, out);
        }
    }

    /// Handles a completed message, plan or review result. Returns `false` if it adds nothing.
    pub(super) fn on_text_completed(
        &mut self,
        id: &str,
        item: &ThreadItem<'_>,
        out: &mut Vec<AgentEvent>,
    ) -> bool {
        let Some(turn) = self.turn.as_mut() else {
            return false;
        };
        let text = match item.kind() {
            "exitedReviewMode" => item.review.as_str(),
            _ => item.text.as_str(),
        };
        let text = text.unwrap_or_default();
        turn.resume_activity(out);
        if !turn.settle_text(id, ItemTextPart::Whole, text, out) {
            return false;
        }
        if text.trim().is_empty() {
            return true;
        }
        // An `async` question does not wait for an answer in this turn.
        if item.delivery.as_str() == Some("async") {
            turn.questions.push(text.into());
        } else if item.phase.as_str() != Some("commentary") {
            turn.answer = Some(text.into());
        }
        true
    }

    /// Handles a completed reasoning item. Returns `false` if it adds nothing.
    pub(super) fn on_reasoning_completed(
        &mut self,
        id: &str,
        item: &ThreadItem<'_>,
        out: &mut Vec<AgentEvent>,
    ) -> bool {
        let Some(turn) = self.turn.as_mut() else {
            return false;
        };
        turn.resume_activity(out);
        let mut new = false;
        let summary = item.summary.0.as_deref().unwrap_or_default();
        for (number, text) in (0..).zip(summary) {
            new |= turn.settle_text(id, ItemTextPart::Summary(number), text, out);
        }
        // The raw reasoning counts only if it was shown or there is no summary.
        for (number, text) in (0..).zip(item.texts()) {
            let part = ItemTextPart::Content(number);
            if summary.is_empty() || turn.texts.find(id, part, SlotState::Open).is_some() {
                new |= turn.settle_text(id, part, &text, out);
            }
        }
        turn.settle_remaining(id, out);
        new || summary.is_empty()
    }
}

/// Reports whether a text is the marker of an aborted turn.
pub(super) fn is_abort_marker(text: &str) -> bool {
    text.trim_start().starts_with(ABORT_MARKER)
}
