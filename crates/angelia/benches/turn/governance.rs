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
    Place, Timing,
    local::Local,
    report::{self, Report, Series, ms},
    ungoverned::Ungoverned,
};

/// Turns of each variant in a round.
const TURNS: u32 = 50;
const PROMPT: &str = "WORDS:20";

/// The most that governance may add to a turn, in milliseconds.
const GOAL_MS: f64 = 0.2;

#[derive(Default)]
struct Found {
    first: Series,
    end: Series,
}

impl Found {
    fn add(&mut self, timing: Timing) {
        self.first.add(timing.first);
        self.end.add(timing.end);
    }
}

type Pick = fn(&Found) -> &Series;

pub(crate) fn measure(report: &mut Report, rounds: u32) -> Result<()> {
    let place = Place::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    let local = Local::start(&place, 0)?;
    let ungoverned = Ungoverned::start(&local)?;
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
    let round = |found: &mut [Found; 3]| -> Result<()> {
        for _ in 0..TURNS {
            found[0].add(ungoverned.turn(&local, PROMPT)?);
            found[1].add(local.turn(plain, PROMPT)?);
            let begun = Instant::now();
            found[2].add(local.turn_once(begun, governed, PROMPT, Some(key()))?);
        }
        Ok(())
    };
    // Warm up: one-time costs must not count.
    round(&mut <[Found; 3]>::default())?;
    let mut found = <[Found; 3]>::default();
    for _ in 0..rounds {
        round(&mut found)?;
    }

    let [bare, plain, whole] = &found;
    let picks: [(&str, Pick); 2] =
        [("first delta", |found| &found.first), ("end", |found| &found.end)];
    for (what, pick) in picks {
        report::table(
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
