//! Measures the cost of governing a turn. A hot fake CLI runs in this process, once through the
//! engine with every watchdog and budget and with an idempotency key, and once with only the agent
//! and the store (see [`ungoverned`](crate::ungoverned), which explains what the difference
//! contains). All variants run in every round.

use std::time::{Duration, Instant};

use angelia_core::engine::RequestKey;
use angelia_testkit::programs;
use anyhow::Result;
use uuid::Uuid;

use crate::{
    BenchHome, Timing,
    local::InProcessEngine,
    report::{self, GoalReport, SampleSeries, ms},
    ungoverned::UngovernedSession,
};

/// Turns of each variant in a round.
const TURNS: u32 = 50;
const PROMPT: &str = "WORDS:20";

/// The most that governance may add to a turn, in milliseconds.
const GOAL_MS: f64 = 0.2;

#[derive(Default)]
struct GovernanceResults {
    first: SampleSeries,
    end: SampleSeries,
}

impl GovernanceResults {
    fn add(&mut self, timing: Timing) {
        self.first.add(timing.first);
        self.end.add(timing.end);
    }
}

type SeriesSelector = fn(&GovernanceResults) -> &SampleSeries;

pub(crate) fn measure(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let place = BenchHome::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    let local = InProcessEngine::start(&place, 0)?;
    let ungoverned = UngovernedSession::start(&local)?;
    let plain = local.create_session()?;
    let mut spec = local.spec.clone();
    spec.budgets.time = Some(Duration::from_hours(1));
    spec.budgets.tools = Some(100);
    spec.budgets.cost_usd = Some(100.0);
    let governed = local.create_session_of(spec)?;
    let key = || RequestKey {
        caller: "bench".into(),
        key: Uuid::new_v4().to_string().into(),
        input: None,
        window: Duration::from_hours(24),
    };
    let round = |found: &mut [GovernanceResults; 3]| -> Result<()> {
        for _ in 0..TURNS {
            found[0].add(ungoverned.turn(&local, PROMPT)?);
            found[1].add(local.turn(plain, PROMPT)?);
            let begun = Instant::now();
            found[2].add(local.turn_once(begun, governed, PROMPT, Some(key()))?);
        }
        Ok(())
    };
    // Warm up: one-time costs must not count.
    round(&mut <[GovernanceResults; 3]>::default())?;
    let mut found = <[GovernanceResults; 3]>::default();
    for _ in 0..rounds {
        round(&mut found)?;
    }

    let [bare, plain, whole] = &found;
    let picks: [(&str, SeriesSelector); 2] =
        [("first delta", |found| &found.first), ("end", |found| &found.end)];
    for (what, pick) in picks {
        report::print_table(
            &format!("governance: {what} of a hot 20-delta turn"),
            &[
                ("agent and store, nobody watches", pick(bare)),
                ("engine, clocks", pick(plain)),
                ("engine, clocks, budgets, at most once", pick(whole)),
            ],
        );
        report.at_most(
            &format!("governance, {what} p50, more than ungoverned"),
            ms(pick(whole).median()) - ms(pick(bare).median()),
            GOAL_MS,
            "ms",
        );
    }
    Ok(())
}
