//! The order in which the variants of a real program run: all of them in every round, and none
//! always after the same other one.

use std::{thread::sleep, time::Duration};

use anyhow::Result;

/// Hot turns of each variant in a round.
const HOT_TURNS: u32 = 6;

pub(crate) type Step<Stage, Found> = fn(&mut Stage, &mut Found) -> Result<()>;

pub(crate) struct RoundPlan<Stage, Found> {
    pub(crate) hot: [Step<Stage, Found>; 3],
    pub(crate) others: [Step<Stage, Found>; 4],
    /// A program keeps working for a while after a turn; without a pause, the next turn would
    /// include that time.
    pub(crate) pause: Duration,
}

impl<Stage, Found> RoundPlan<Stage, Found> {
    pub(crate) fn run(&self, rounds: u32, stage: &mut Stage, found: &mut Found) -> Result<()> {
        let mut steps = self.others;
        for _ in 0..rounds {
            self.hot_turns(stage, found)?;
            for step in steps {
                step(stage, found)?;
                sleep(self.pause);
            }
            steps.rotate_left(1);
        }
        Ok(())
    }

    pub(crate) fn hot_turns(&self, stage: &mut Stage, found: &mut Found) -> Result<()> {
        let mut steps = self.hot;
        for turn in 1..=HOT_TURNS {
            for step in steps {
                sleep(self.pause);
                step(stage, found)?;
            }
            steps.rotate_left(1);
            // A rotation alone keeps the cyclic order; the swap changes which variant follows
            // which.
            if turn.is_multiple_of(2) {
                steps.swap(0, 1);
            }
        }
        Ok(())
    }
}
