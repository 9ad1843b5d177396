//! Timers for an agent that was asked to stop: when to ask again, and when to give up.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How long an agent may take to stop. A healthy agent takes milliseconds; a slower one is stuck.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The timers of one turn. They start when the agent is asked to stop.
#[derive(Debug)]
pub(crate) struct StopTimers {
    repeat_interval: Duration,
    deadlines: Option<StopDeadlines>,
}

#[derive(Clone, Copy, Debug)]
struct StopDeadlines {
    repeat_at: Instant,
    give_up_at: Instant,
}

/// What to do about an agent that was asked to stop but has not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueAction {
    RepeatStop,
    GiveUp,
}

impl StopTimers {
    /// Creates timers that repeat the stop every `repeat_interval`. A stop that arrives before the
    /// agent has started on the prompt has no effect.
    pub(crate) fn new(repeat_interval: Duration) -> Self {
        Self { repeat_interval, deadlines: None }
    }

    pub(crate) fn start(&mut self) {
        let now = Instant::now();
        self.deadlines = Some(StopDeadlines {
            repeat_at: now + self.repeat_interval,
            give_up_at: now + STOP_TIMEOUT,
        });
    }

    pub(crate) fn is_running(&self) -> bool {
        self.deadlines.is_some()
    }

    /// Waits for the next action; waits forever if the timers have not been started. Cancel-safe.
    pub(crate) async fn due(&mut self) -> DueAction {
        let Some(deadlines) = &mut self.deadlines else {
            return std::future::pending().await;
        };
        sleep_until(deadlines.repeat_at.min(deadlines.give_up_at)).await;
        if deadlines.give_up_at <= Instant::now() {
            return DueAction::GiveUp;
        }
        deadlines.repeat_at = Instant::now() + self.repeat_interval;
        DueAction::RepeatStop
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const REPEAT_INTERVAL: Duration = Duration::from_millis(1500);

    #[tokio::test(start_paused = true)]
    async fn nothing_is_due_before_it_is_told_to_stop() {
        let mut timers = StopTimers::new(REPEAT_INTERVAL);
        assert!(timeout(2 * STOP_TIMEOUT, timers.due()).await.is_err());
        assert!(!timers.is_running());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_stop_is_told_again_and_then_given_up() {
        let mut timers = StopTimers::new(REPEAT_INTERVAL);
        let started = Instant::now();
        timers.start();
        let mut dues = Vec::new();
        while dues.last().is_none_or(|(_, due)| *due != DueAction::GiveUp) {
            let due = timers.due().await;
            dues.push((started.elapsed(), due));
        }
        let repeats = [1, 2, 3].map(|times| (times * REPEAT_INTERVAL, DueAction::RepeatStop));
        let expected: Vec<_> =
            (repeats.into_iter()).chain([(STOP_TIMEOUT, DueAction::GiveUp)]).collect();
        assert_eq!(dues, expected);
    }
}
