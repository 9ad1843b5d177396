//! What every turn waits for besides the words of its agent: that it stops when it is told to, and
//! that the output of a program that has exited comes to its end.

use std::time::Duration;

use angelia_core::{model::Status, ports::Ended};
use tokio::time::Instant;

use crate::link::Link;

/// Whoever is told to stop does so in milliseconds; whoever takes longer is stuck.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How often a silent program is looked after: its output may outlive it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long output may stay open after the exit: somebody else may hold the pipe.
const LEAK: Duration = Duration::from_millis(500);

/// The clocks of one turn.
#[derive(Debug)]
pub(crate) struct TurnClocks {
    again_every: Duration,
    /// Told to stop; give up then.
    give_up: Option<Instant>,
    /// Tell it again then.
    again: Option<Instant>,
    /// The program has exited; its output is waited for until then.
    leak: Option<Instant>,
}

/// What is to be done about an agent that was told to stop and has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    TellAgain,
    GiveUp,
}

impl TurnClocks {
    /// `again_every`: a stop that arrives before the agent has taken the prompt up finds nothing to
    /// stop, and is repeated.
    pub(crate) fn new(again_every: Duration) -> Self {
        Self { again_every, give_up: None, again: None, leak: None }
    }

    pub(crate) fn told_to_stop(&mut self) {
        let now = Instant::now();
        self.give_up = Some(now + STOP_LIMIT);
        self.again = Some(now + self.again_every);
    }

    /// When to look at them next.
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

    /// Ends the output of a program that has exited, if nothing else does.
    pub(crate) fn look_after(&mut self, link: &mut Link) {
        let now = Instant::now();
        if has_rung(self.leak, now) {
            // Whoever holds the pipe now has nothing to say to us.
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

/// The end of a turn that was told to stop.
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
