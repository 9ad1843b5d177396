//! Decides which messages of a conversation stay when it is compacted.
//!
//! ```text
//!   head              summary        kept                 tail
//!   first messages    of the rest    last user message    newest messages
//! ```
//!
//! The tail begins at the last user message, or earlier if there is room. In a turn that has become
//! long, older results are digested. If that is not enough, its older steps become part of the
//! summary, and only the message that began the turn is kept.

use super::{
    shortened::{Compaction, summary_end},
    size::{TokenScale, message_tokens, messages_tokens, text_bytes},
};
use crate::native::provider::Message;

/// The tail has at most this many tokens, and at most a fifth of the window.
const MAX_TAIL_TOKENS: u64 = 20_000;

/// The numbers that a plan depends on, besides the messages.
#[derive(Clone, Copy, Debug)]
pub struct PlanLimits {
    /// The number of messages at the beginning that stay.
    pub protect_first_n: usize,
    /// The head of the last compaction; its summary follows.
    pub earlier_head: Option<usize>,
    pub window: u64,
    /// The maximum number of tokens of the newest messages.
    pub tail: u64,
    pub scale: TokenScale,
}

impl PlanLimits {
    /// Returns the maximum number of tokens of the tail, for a window or a conversation of this
    /// size.
    pub fn tail_of(size: u64) -> u64 {
        MAX_TAIL_TOKENS.min(size / 5)
    }
}

/// The messages that stay, by their indices in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// This many messages at the beginning stay.
    pub head: usize,
    /// The estimated tokens that the head may have; longer texts in it are cut.
    pub head_tokens: u64,
    /// A user message that stays although its neighbours do not.
    pub kept: Option<usize>,
    /// The messages from here on stay.
    pub tail: usize,
    /// Tool results in the tail are digested up to this message.
    pub digest_until: usize,
    /// The texts of the other results are cut to this many bytes.
    pub result_bytes: usize,
}

impl CompactionPlan {
    /// Returns `None` if nothing can be shortened.
    pub fn new(messages: &[Message], limits: &PlanLimits) -> Option<Self> {
        let head = match limits.earlier_head {
            Some(head) => head.min(messages.len()),
            None => with_results(messages, limits.protect_first_n.min(messages.len())),
        };
        let planner = Planner { messages, limits, head };
        let whole_turn = planner.keep_last_turn();
        if whole_turn.is_some_and(|plan| planner.is_short(&plan)) {
            return whole_turn;
        }
        // A turn that was answered must keep its answer.
        if matches!(messages.last(), Some(Message::Assistant(_)) | None) {
            return whole_turn;
        }
        let shorter_head = Planner { head: 1, ..planner };
        let may_shrink = limits.earlier_head.is_none() && head > 1;
        (planner.fold_last_turn())
            .or_else(|| planner.trim_results())
            .or_else(|| shorter_head.fold_last_turn().filter(|_| may_shrink))
            .or(whole_turn)
    }

    /// Returns whether the plan leaves out no message and only shortens tool results.
    pub const fn only_trims(&self) -> bool {
        self.tail == self.head && self.kept.is_none()
    }
}

/// Makes plans for a given length of the head.
#[derive(Clone, Copy)]
struct Planner<'a> {
    messages: &'a [Message],
    limits: &'a PlanLimits,
    head: usize,
}

impl Planner<'_> {
    /// Returns the index of the first message that a summary may replace. An earlier summary is
    /// replaced too, but it is no reason for another one.
    fn rest(&self) -> usize {
        let rest = match self.limits.earlier_head {
            Some(head) => summary_end(self.messages, head),
            None => self.head,
        };
        rest.min(self.messages.len())
    }

    fn last_user(&self) -> Option<usize> {
        let rest = self.rest();
        let place = self.messages[rest..].iter().rposition(is_user)?;
        Some(rest + place)
    }

    /// Returns the maximum number of tokens of the tail, in our own estimate.
    fn tail_budget(&self) -> u64 {
        self.limits.scale.to_estimated(self.limits.tail)
    }

    /// Returns the index of the first message that fits into the tail.
    fn newest(&self) -> usize {
        newest_start(self.messages, self.tail_budget()).max(self.rest())
    }

    fn plan(&self, kept: Option<usize>, tail: usize) -> CompactionPlan {
        let count = self.messages.len();
        // Results that the model has not seen yet are cut at worst, never digested.
        let (unseen, share) = match self.messages.last() {
            Some(Message::Results(batch)) => (count - 1, batch.results.len().max(1)),
            _ => (count, 1),
        };
        CompactionPlan {
            head: self.head,
            head_tokens: self.limits.window / 10,
            kept,
            tail,
            digest_until: self.newest().min(unseen),
            result_bytes: text_bytes(self.tail_budget()) / share,
        }
    }

    /// Keeps everything since the last user message.
    fn keep_last_turn(&self) -> Option<CompactionPlan> {
        let newest = self.newest();
        let start = self.last_user().map_or(newest, |user| user.min(newest));
        let tail = with_calls(self.messages, start, self.rest());
        (tail > self.rest()).then(|| self.plan(None, tail))
    }

    /// Moves the older steps of the last turn into the summary.
    fn fold_last_turn(&self) -> Option<CompactionPlan> {
        let (rest, last_user) = (self.rest(), self.last_user());
        let first = last_user.map_or(rest, |user| user + 1);
        let plan = self.plan(None, first);
        let tail = with_calls(self.messages, plan.digest_until.max(first), first);
        let is_everything = tail == first && last_user.is_none_or(|user| user == rest);
        let tail = if is_everything { self.messages.len() } else { tail };
        let kept = last_user.filter(|user| *user < tail);
        let is_answer = |message: &Message| matches!(message, Message::Assistant(_));
        let has_answer = self.messages[rest.min(tail)..tail].iter().any(is_answer);
        let is_lost = is_everything && self.trim_results().is_some();
        (has_answer && !is_lost).then_some(CompactionPlan { kept, tail, ..plan })
    }

    /// Only shortens tool results, if that is enough.
    fn trim_results(&self) -> Option<CompactionPlan> {
        let head = self.limits.earlier_head.unwrap_or_default();
        let plan = CompactionPlan { head, ..self.plan(None, head) };
        self.is_short(&plan).then_some(plan).filter(|plan| {
            let before = messages_tokens(self.messages);
            self.size_after(plan) <= before / 2
        })
    }

    /// Returns whether a plan leaves enough room to continue.
    fn is_short(&self, plan: &CompactionPlan) -> bool {
        self.limits.scale.to_reported(self.size_after(plan)) <= self.limits.window / 2
    }

    fn size_after(&self, plan: &CompactionPlan) -> u64 {
        let compaction = Compaction { plan: *plan, summary: None };
        compaction.shorten(self.messages).map_or(u64::MAX, |left| messages_tokens(&left))
    }
}

const fn is_user(message: &Message) -> bool {
    matches!(message, Message::User(_))
}

const fn is_results(message: &Message) -> bool {
    matches!(message, Message::Results(_))
}

/// Extends a head to include the results of its last calls.
fn with_results(messages: &[Message], mut end: usize) -> usize {
    while end > 0 && messages.get(end).is_some_and(is_results) {
        end += 1;
    }
    end
}

/// Extends a tail to include the calls of its first results, but not beyond `first`.
fn with_calls(messages: &[Message], mut start: usize, first: usize) -> usize {
    while start > first && messages.get(start).is_some_and(is_results) {
        start -= 1;
    }
    start
}

/// Returns the index at which the newest messages begin that fit into `tokens`.
fn newest_start(messages: &[Message], tokens: u64) -> usize {
    let mut left = tokens;
    let fits = |message: &&Message| match left.checked_sub(message_tokens(message)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    messages.len() - messages.iter().rev().take_while(fits).count()
}
