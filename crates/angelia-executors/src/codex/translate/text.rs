//! Text of messages, reasoning and plans.
//!
//! Deltas are provisional; the completed item settles its blocks. A stream that is retried starts
//! over, under the same item id or another one: the text of the broken stream is withdrawn as soon
//! as there is a replacement, and stays if there never is one.

use angelia_core::{
    model::{BlockId, EventKind, TextChannel},
    ports::Emitted,
};
use serde_json::value::RawValue;

use super::{
    Translator, Whose, event, native,
    turn::{Turn, emit_block},
};
use crate::codex::protocol::{item::Item, notification::Common};

/// The marker with which a message says that the turn was aborted.
const ABORTED: &str = "<turn_aborted>";

#[derive(Debug, Default)]
pub(super) struct Texts(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    item: Box<str>,
    part: Part,
    channel: TextChannel,
    /// The id of our block, once some text was shown.
    block: Option<BlockId>,
    /// The sum of the deltas.
    text: String,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The stream broke off.
    Abandoned,
    Settled,
}

/// Selects one of the texts of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Summary(u32),
    Content(u32),
}

impl Part {
    const fn channel(self) -> TextChannel {
        match self {
            Self::Whole => TextChannel::Answer,
            Self::Summary(_) | Self::Content(_) => TextChannel::Reasoning,
        }
    }
}

impl Texts {
    fn find(&mut self, item: &str, part: Part, state: State) -> Option<&mut Slot> {
        (self.0.iter_mut())
            .find(|slot| slot.state == state && slot.part == part && *slot.item == *item)
    }

    fn push(&mut self, item: &str, part: Part) -> &mut Slot {
        self.0.push_mut(Slot {
            item: item.into(),
            part,
            channel: part.channel(),
            block: None,
            text: String::new(),
            state: State::Open,
        })
    }

    /// Marks the open texts as abandoned: the stream broke off and is retried.
    pub(super) fn abandon(&mut self) {
        for slot in &mut self.0 {
            if slot.state == State::Open {
                slot.state = State::Abandoned;
            }
        }
    }

    /// Withdraws the abandoned texts, because there is a replacement.
    pub(super) fn withdraw_abandoned(&mut self, out: &mut Vec<Emitted>) {
        self.withdraw(|slot| slot.state == State::Abandoned, out);
    }

    fn withdraw(&mut self, which: impl Fn(&Slot) -> bool, out: &mut Vec<Emitted>) {
        self.0.retain(|slot| {
            let gone = which(slot);
            if gone
                && slot.state != State::Settled
                && let Some(block) = slot.block
            {
                emit_block(block, slot.channel, "".into(), out);
            }
            !gone
        });
    }

    /// Ends the turn: text that was shown stays, and becomes whole blocks.
    pub(super) fn keep(&mut self, out: &mut Vec<Emitted>) {
        for slot in self.0.drain(..) {
            if slot.state != State::Settled
                && let Some(block) = slot.block
            {
                emit_block(block, slot.channel, slot.text.into(), out);
            }
        }
    }
}

impl Turn {
    fn delta(&mut self, item: &str, part: Part, delta: &str, out: &mut Vec<Emitted>) {
        self.texts.withdraw_abandoned(out);
        if self.texts.find(item, part, State::Open).is_none() {
            let block = self.new_block();
            self.texts.push(item, part).block = Some(block);
        }
        let Some(slot) = self.texts.find(item, part, State::Open) else {
            return;
        };
        slot.text.push_str(delta);
        let Some(block) = slot.block else { return };
        let kind = EventKind::Delta { block, channel: slot.channel, text: delta.into() };
        event(kind, out);
    }

    /// Withdraws the unsettled text of an item that starts, perhaps not for the first time.
    fn begin_words(&mut self, item: &str, out: &mut Vec<Emitted>) {
        self.texts.withdraw_abandoned(out);
        self.texts.withdraw(|slot| *slot.item == *item, out);
    }

    /// Settles one text of an item. Returns `false` if it was settled before.
    fn settle(&mut self, item: &str, part: Part, whole: &str, out: &mut Vec<Emitted>) -> bool {
        self.texts.withdraw_abandoned(out);
        if self.texts.find(item, part, State::Open).is_none() {
            if self.texts.find(item, part, State::Settled).is_some() {
                return false;
            }
            let block = (!whole.is_empty()).then(|| self.new_block());
            self.texts.push(item, part).block = block;
        }
        if let Some(slot) = self.texts.find(item, part, State::Open) {
            slot.state = State::Settled;
            slot.text = String::new();
            if let Some(block) = slot.block {
                emit_block(block, slot.channel, whole.into(), out);
            }
        }
        true
    }

    /// Settles the texts that the completed item does not repeat, as they were streamed.
    fn settle_rest(&mut self, item: &str, out: &mut Vec<Emitted>) {
        for slot in &mut self.texts.0 {
            if *slot.item == *item && slot.state == State::Open {
                slot.state = State::Settled;
                if let Some(block) = slot.block {
                    let text = std::mem::take(&mut slot.text);
                    emit_block(block, slot.channel, text.into(), out);
                }
            }
        }
    }
}

impl Translator {
    /// Handles a delta of a message, a plan or reasoning.
    pub(super) fn delta(&mut self, method: &str, params: &RawValue, out: &mut Vec<Emitted>) {
        let common = Common::parse(params);
        let (Some(item), Some(delta)) = (common.item_id.as_str(), common.delta.as_str()) else {
            return native(method, params, out);
        };
        let part = match method {
            "item/reasoning/summaryTextDelta" => {
                Part::Summary(common.summary_index.get().unwrap_or(0))
            }
            "item/reasoning/textDelta" => Part::Content(common.content_index.get().unwrap_or(0)),
            _ => Part::Whole,
        };
        if delta.is_empty() || self.whose(&common.thread_id, &common.turn_id) != Whose::Ours {
            return;
        }
        if let Some(turn) = self.turn.as_mut() {
            turn.back_to_work(out);
            turn.delta(item, part, delta, out);
        }
    }

    /// Handles the start of an item that consists of text.
    pub(super) fn words_started(&mut self, id: &str, out: &mut Vec<Emitted>) {
        if let Some(turn) = self.turn.as_mut() {
            turn.back_to_work(out);
            turn.begin_words(id, out);
        }
    }

    /// Handles a completed message, plan or review result. Returns `false` if it adds nothing.
    pub(super) fn words_completed(
        &mut self,
        id: &str,
        item: &Item<'_>,
        out: &mut Vec<Emitted>,
    ) -> bool {
        let Some(turn) = self.turn.as_mut() else {
            return false;
        };
        let text = match item.kind() {
            "exitedReviewMode" => item.review.as_str(),
            _ => item.text.as_str(),
        };
        let text = text.unwrap_or_default();
        turn.back_to_work(out);
        if !turn.settle(id, Part::Whole, text, out) {
            return false;
        }
        if text.trim().is_empty() {
            return true;
        }
        // An `async` question does not wait for a reply within this turn.
        if item.delivery.as_str() == Some("async") {
            turn.questions.push(text.into());
        } else if item.phase.as_str() != Some("commentary") {
            turn.answer = Some(text.into());
        }
        true
    }

    /// Handles a completed reasoning item. Returns `false` if it adds nothing.
    pub(super) fn reasoning_completed(
        &mut self,
        id: &str,
        item: &Item<'_>,
        out: &mut Vec<Emitted>,
    ) -> bool {
        let Some(turn) = self.turn.as_mut() else {
            return false;
        };
        turn.back_to_work(out);
        let mut new = false;
        let summary = item.summary.0.as_deref().unwrap_or_default();
        for (number, text) in (0..).zip(summary) {
            new |= turn.settle(id, Part::Summary(number), text, out);
        }
        // The raw reasoning counts only if it was shown, or if there is no summary.
        for (number, text) in (0..).zip(item.texts()) {
            let part = Part::Content(number);
            if summary.is_empty() || turn.texts.find(id, part, State::Open).is_some() {
                new |= turn.settle(id, part, &text, out);
            }
        }
        turn.settle_rest(id, out);
        new || summary.is_empty()
    }
}

/// Returns whether a text is the marker of an aborted turn.
pub(super) fn is_aborted(text: &str) -> bool {
    text.trim_start().starts_with(ABORTED)
}
