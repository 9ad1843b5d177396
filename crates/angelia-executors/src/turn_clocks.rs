//! The timers of a turn: one for an agent that does not stop when it is asked to, and one for the
//! output of a program that has exited but whose pipe stays open.

use std::time::Duration;

use angelia_core::{model::Status, ports::Ended};
use tokio::time::Instant;

use crate::link::Link;

/// How long an agent may take to stop. A healthy agent takes milliseconds; a slower one is stuck.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How often to check whether a silent program has exited: its output may stay open after that.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long to read output after the exit: another process may hold the pipe open.
const LEAK: Duration = Duration::from_millis(500);

/// The timers of one turn.
#[derive(Debug)]
pub(crate) struct TurnClocks {
    again_every: Duration,
    /// Set when the agent was asked to stop: when to give up on it.
    give_up: Option<Instant>,
    /// When to ask the agent to stop again.
    again: Option<Instant>,
    /// Set when the program has exited: until when to read its output.
    leak: Option<Instant>,
}

/// The next step for an agent that was asked to stop and has not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    TellAgain,
    GiveUp,
}

impl TurnClocks {
    /// `repeat_interval` is how often a stop is repeated: a stop that arrives before the agent has
    /// started on the prompt has no effect.
    pub(crate) fn new(again_every: Duration) -> Self {
        Self { again_every, give_up: None, again: None, leak: None }
    }

    pub(crate) fn told_to_stop(&mut self) {
        let now = Instant::now();
        self.give_up = Some(now + STOP_LIMIT);
        self.again = Some(now + self.again_every);
    }

    /// Returns the time of the next check: the earliest timer, or the next exit check.
    pub(crate) fn next(&self) -> Instant {
        [self.give_up, self.again, self.leak]
            .into_iter()
            .flatten()
            .fold(Instant::now() + LOOK_EVERY, Instant::min)
    }

    pub(crate) fn due(&mut self) -> Option<Due> {
        let now = Instant::now();
        if has_rung(self.give_up, now) {
            return Some(Due::GiveUp);
        }
        if has_rung(self.again, now) {
            self.again = Some(now + self.again_every);
            return Some(Due::TellAgain);
        }
        None
    }

    /// Closes the output of an exited program once the drain limit has passed.
    pub(crate) fn look_after(&mut self, link: &mut Link) {
        let now = Instant::now();
        if has_rung(self.leak, now) {
            // A surviving descendant holds the pipe; its output is not the agent's.
            self.leak = None;
            link.output.abandon();
        } else if self.leak.is_none() && link.child.try_exited().is_some() {
            self.leak = Some(now + LEAK);
        }
    }
}

pub(crate) fn has_rung(clock: Option<Instant>, now: Instant) -> bool {
    clock.is_some_and(|at| at <= now)
}

/// Returns the end of a turn that was interrupted.
pub(crate) fn interrupted(reason: &str) -> Ended {
    Ended { status: Status::Interrupted, text: None, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const AGAIN: Duration = Duration::from_millis(1500);

    #[tokio::test(start_paused = true)]
    async fn nothing_is_due_before_it_is_told_to_stop() {
        let mut clocks = TurnClocks::new(AGAIN);
        assert_eq!(clocks.next(), Instant::now() + LOOK_EVERY);
        advance(2 * STOP_LIMIT).await;
        assert_eq!(clocks.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_stop_is_told_again_and_then_given_up() {
        let mut clocks = TurnClocks::new(AGAIN);
        let told = Instant::now();
        clocks.told_to_stop();
        let mut dues = Vec::new();
        while dues.last().is_none_or(|(_, due)| *due != Due::GiveUp) {
            advance(clocks.next() - Instant::now()).await;
            dues.extend(clocks.due().map(|due| (told.elapsed(), due)));
        }
        let again = [1, 2, 3].map(|times| (times * AGAIN, Due::TellAgain));
        let expected: Vec<_> = (again.into_iter()).chain([(STOP_LIMIT, Due::GiveUp)]).collect();
        assert_eq!(dues, expected);
    }
}
