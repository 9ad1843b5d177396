//! The timers of a turn: one for an agent that does not stop when it is asked to, and one for the
//! output of a program that has exited but whose pipe stays open.

use std::time::Duration;

use angelia_core::{model::TurnStatus, ports::AgentOutcome};
use tokio::time::Instant;

use crate::process_link::ProcessLink;

/// How long an agent may take to stop. A healthy agent takes milliseconds; a slower one is stuck.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to check whether a silent program has exited: its output may stay open after that.
const EXIT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long to read output after the exit: another process may hold the pipe open.
const OUTPUT_DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// The timers of one turn.
#[derive(Debug)]
pub(crate) struct TurnTimers {
    repeat_interval: Duration,
    /// Set when the agent was asked to stop: when to give up on it.
    give_up_at: Option<Instant>,
    /// When to ask the agent to stop again.
    repeat_at: Option<Instant>,
    /// Set when the program has exited: until when to read its output.
    drain_until: Option<Instant>,
}

/// The next step for an agent that was asked to stop and has not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueAction {
    RepeatStop,
    GiveUp,
}

impl TurnTimers {
    /// `repeat_interval` is how often a stop is repeated: a stop that arrives before the agent has
    /// started on the prompt has no effect.
    pub(crate) fn new(again_every: Duration) -> Self {
        Self { repeat_interval: again_every, give_up_at: None, repeat_at: None, drain_until: None }
    }

    pub(crate) fn start_stop_timers(&mut self) {
        let now = Instant::now();
        self.give_up_at = Some(now + STOP_TIMEOUT);
        self.repeat_at = Some(now + self.repeat_interval);
    }

    /// Returns the time of the next check: the earliest timer, or the next exit check.
    pub(crate) fn next_deadline(&self) -> Instant {
        [self.give_up_at, self.repeat_at, self.drain_until]
            .into_iter()
            .flatten()
            .fold(Instant::now() + EXIT_POLL_INTERVAL, Instant::min)
    }

    pub(crate) fn take_due(&mut self) -> Option<DueAction> {
        let now = Instant::now();
        if has_elapsed(self.give_up_at, now) {
            return Some(DueAction::GiveUp);
        }
        if has_elapsed(self.repeat_at, now) {
            self.repeat_at = Some(now + self.repeat_interval);
            return Some(DueAction::RepeatStop);
        }
        None
    }

    /// Closes the output of an exited program once the drain limit has passed.
    pub(crate) fn check_exit(&mut self, link: &mut ProcessLink) {
        let now = Instant::now();
        if has_elapsed(self.drain_until, now) {
            // A surviving descendant holds the pipe; its output is not the agent's.
            self.drain_until = None;
            link.output.abandon();
        } else if self.drain_until.is_none() && link.child.try_exit_status().is_some() {
            self.drain_until = Some(now + OUTPUT_DRAIN_LIMIT);
        }
    }
}

pub(crate) fn has_elapsed(clock: Option<Instant>, now: Instant) -> bool {
    clock.is_some_and(|at| at <= now)
}

/// Returns the end of a turn that was interrupted.
pub(crate) fn interrupted_outcome(reason: &str) -> AgentOutcome {
    AgentOutcome { status: TurnStatus::Interrupted, text: None, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const REPEAT_INTERVAL: Duration = Duration::from_millis(1500);

    #[tokio::test(start_paused = true)]
    async fn nothing_is_due_before_it_is_told_to_stop() {
        let mut clocks = TurnTimers::new(REPEAT_INTERVAL);
        assert_eq!(clocks.next_deadline(), Instant::now() + EXIT_POLL_INTERVAL);
        advance(2 * STOP_TIMEOUT).await;
        assert_eq!(clocks.take_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_stop_is_told_again_and_then_given_up() {
        let mut clocks = TurnTimers::new(REPEAT_INTERVAL);
        let told = Instant::now();
        clocks.start_stop_timers();
        let mut dues = Vec::new();
        while dues.last().is_none_or(|(_, due)| *due != DueAction::GiveUp) {
            advance(clocks.next_deadline() - Instant::now()).await;
            dues.extend(clocks.take_due().map(|due| (told.elapsed(), due)));
        }
        let again = [1, 2, 3].map(|times| (times * REPEAT_INTERVAL, DueAction::RepeatStop));
        let expected: Vec<_> =
            (again.into_iter()).chain([(STOP_TIMEOUT, DueAction::GiveUp)]).collect();
        assert_eq!(dues, expected);
    }
}
