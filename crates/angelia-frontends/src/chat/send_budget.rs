//! Limits how much is sent to a platform in a period: in total, and to each chat.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use angelia_core::ports::{SendError, SendErrorKind};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// At most `count` messages in any `period`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendRate {
    pub(super) count: usize,
    pub(super) period: Duration,
}

/// What happens to a message that exceeds the rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Wait,
    /// A preview that comes too early is dropped: the next one is newer anyway.
    Preview,
}

/// Returns the error for a preview that comes too early.
pub(super) fn too_early(retry_after: Duration) -> SendError {
    let error = SendError::new(SendErrorKind::NotSent, "the preview is too early");
    SendError { retry_after: Some(retry_after), ..error }
}

/// The rates of a platform, and the recent messages.
#[derive(Debug)]
pub(super) struct SendBudget {
    overall: SendRate,
    windows: Mutex<Windows>,
}

#[derive(Debug, Default)]
struct Windows {
    overall: VecDeque<Instant>,
    /// By chat, then by the index of the rate.
    chats: HashMap<String, Vec<VecDeque<Instant>>>,
}

/// Chats with no message for this long are forgotten.
const CHAT_MEMORY: Duration = Duration::from_mins(2);

impl SendBudget {
    pub(super) fn new(overall: SendRate) -> Self {
        Self { overall, windows: Mutex::default() }
    }

    /// Waits until these rates allow a message to a chat.
    pub(super) async fn wait(&self, chat: &str, rates: &[SendRate]) {
        let at = self.reserve(chat, rates, Instant::now());
        sleep_until(at).await;
    }

    /// Returns whether a message may be sent now. If so, counts it.
    pub(super) fn try_take(&self, chat: &str, rates: &[SendRate]) -> bool {
        let now = Instant::now();
        let mut windows = self.windows.lock();
        if windows.earliest(chat, rates, self.overall, now) > now {
            return false;
        }
        windows.count(chat, rates.len(), now);
        true
    }

    fn reserve(&self, chat: &str, rates: &[SendRate], now: Instant) -> Instant {
        let mut windows = self.windows.lock();
        windows.forget(now);
        let at = windows.earliest(chat, rates, self.overall, now);
        windows.count(chat, rates.len(), at);
        at
    }
}

impl Windows {
    /// Returns the earliest time for the next message.
    fn earliest(
        &mut self,
        chat: &str,
        rates: &[SendRate],
        overall: SendRate,
        now: Instant,
    ) -> Instant {
        let mut at = next_in(&mut self.overall, overall, now);
        if let Some(grants) = self.chats.get_mut(chat) {
            for (grants, rate) in grants.iter_mut().zip(rates) {
                at = at.max(next_in(grants, *rate, now));
            }
        }
        at
    }

    fn count(&mut self, chat: &str, rates: usize, at: Instant) {
        self.overall.push_back(at);
        let grants = self.chats.entry(chat.to_owned()).or_default();
        grants.resize_with(rates.max(grants.len()), VecDeque::new);
        for grants in grants {
            grants.push_back(at);
        }
    }

    fn forget(&mut self, now: Instant) {
        let is_recent = |grants: &Vec<VecDeque<Instant>>| {
            let last = grants.iter().filter_map(VecDeque::back).max();
            last.is_some_and(|last| *last + CHAT_MEMORY > now)
        };
        self.chats.retain(|_, grants| is_recent(grants));
    }
}

fn next_in(grants: &mut VecDeque<Instant>, rate: SendRate, now: Instant) -> Instant {
    while grants.front().is_some_and(|first| *first + rate.period <= now) {
        grants.pop_front();
    }
    // Grants in the future count too: they are reserved.
    match grants.len().checked_sub(rate.count) {
        Some(index) => grants.get(index).map_or(now, |first| (*first + rate.period).max(now)),
        None => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn no_window_has_more_than_its_rate() {
        let budget = SendBudget::new(SendRate { count: 3, period: SECOND });
        let rates =
            [SendRate { count: 1, period: SECOND }, SendRate { count: 5, period: SECOND * 60 }];
        let begin = Instant::now();
        let mut sent = Vec::new();
        for _ in 0..7 {
            budget.wait("a", &rates).await;
            sent.push(begin.elapsed().as_secs());
        }
        assert_eq!(sent, [0, 1, 2, 3, 4, 60, 61]);
        let begin = Instant::now();
        for chat in ["b", "c", "d", "e", "f"] {
            budget.wait(chat, &rates).await;
        }
        assert_eq!(begin.elapsed(), SECOND, "three in a second over all chats");
        assert!(!budget.try_take("f", &rates));
        tokio::time::advance(SECOND).await;
        assert!(budget.try_take("f", &rates));
        assert!(!budget.try_take("f", &rates));
    }
}
