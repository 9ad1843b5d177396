//! Remembers earlier turns, and keeps notices that arrive between turns for the next one.

use std::collections::VecDeque;

use angelia_core::model::Notice;

/// How many ids of earlier turns are remembered, to distinguish late messages from those of our
/// turn.
const MAX_PAST_TURNS: usize = 256;

/// How many notices are kept between turns; the oldest are dropped first.
const MAX_NOTICES: usize = 16;

#[derive(Debug, Default)]
pub(super) struct PastTurns {
    turns: VecDeque<Box<str>>,
    notices: VecDeque<Notice>,
}

impl PastTurns {
    pub(super) fn add(&mut self, turn: &str) {
        if !self.contains(turn) {
            if self.turns.len() == MAX_PAST_TURNS {
                self.turns.pop_front();
            }
            self.turns.push_back(turn.into());
        }
    }

    pub(super) fn contains(&self, turn: &str) -> bool {
        self.turns.iter().any(|past| **past == *turn)
    }

    /// Forgets that a turn has ended, because it is still running.
    pub(super) fn remove(&mut self, turn: &str) {
        self.turns.retain(|past| **past != *turn);
    }

    pub(super) fn queue_notice(&mut self, notice: Notice) {
        if self.notices.len() == MAX_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }

    pub(super) fn take_notices(&mut self) -> impl Iterator<Item = Notice> {
        self.notices.drain(..)
    }
}
