//! What is said between turns and belongs to none: kept for the next one.

use std::collections::VecDeque;

use angelia_core::model::Notice;

/// Ids of earlier turns that are remembered, to tell what is late from what is ours.
const TURNS: usize = 256;

/// More than this nobody reads.
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

    /// A turn that was thought to be over runs on.
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
