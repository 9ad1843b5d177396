//! Remembers earlier turns, and keeps notices that arrive between turns for the next one.

use std::collections::VecDeque;

use angelia_core::model::Notice;

/// How many ids of earlier turns are remembered, to tell late messages from those of our turn.
const TURNS: usize = 256;

/// How many notices are kept between turns; the oldest are dropped first.
const NEWS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Late {
    turns: VecDeque<Box<str>>,
    news: VecDeque<Notice>,
}

impl Late {
    pub(super) fn ended(&mut self, turn: &str) {
        if !self.is_past(turn) {
            if self.turns.len() == TURNS {
                self.turns.pop_front();
            }
            self.turns.push_back(turn.into());
        }
    }

    pub(super) fn is_past(&self, turn: &str) -> bool {
        self.turns.iter().any(|past| **past == *turn)
    }

    /// Forgets that a turn has ended, because it still runs.
    pub(super) fn runs_on(&mut self, turn: &str) {
        self.turns.retain(|past| **past != *turn);
    }

    pub(super) fn keep(&mut self, notice: Notice) {
        if self.news.len() == NEWS {
            self.news.pop_front();
        }
        self.news.push_back(notice);
    }

    pub(super) fn news(&mut self) -> impl Iterator<Item = Notice> {
        self.news.drain(..)
    }
}
