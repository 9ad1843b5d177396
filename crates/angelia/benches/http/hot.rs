//! Measures the first text of a hot turn over `/v1/messages`, beside the same program driven
//! directly.

use std::{path::Path, thread::sleep, time::Duration};

use angelia_testkit::{
    benchmark::{
        BenchHome,
        report::{self, GoalReport, SampleSeries, ms},
    },
    model_server::ModelServer,
    programs,
    real::RealClaude,
};
use anyhow::{Context as _, Result};

use crate::{
    client::ApiClient,
    daemon::{PROFILE, ServeDaemon},
    direct::DirectClaude,
};

const PROMPT: &str = "WORDS:20";

/// Turns of each variant in a round.
const INSTANT_TURNS: u32 = 100;
const REAL_TURNS: u32 = 6;

/// The real program keeps working for a while after its result; without a pause, the next turn
/// would include that time.
const PAUSE: Duration = Duration::from_millis(120);

struct HotTurnSetup {
    direct: DirectClaude,
    client: ApiClient,
    _daemon: ServeDaemon,
    _place: BenchHome,
}

#[derive(Default)]
struct HotTurnResults {
    direct: [SampleSeries; 2],
    http: [SampleSeries; 2],
}

impl HotTurnSetup {
    fn prepare(program: &Path, base_url: &str) -> Result<Self> {
        let place = BenchHome::new(program, base_url)?;
        let direct = DirectClaude::start(&place.program, &place.environment(), &place.work_dir())?;
        let daemon = ServeDaemon::start(&place)?;
        Ok(Self { direct, client: daemon.client()?, _daemon: daemon, _place: place })
    }

    fn turns(&mut self, count: u32, pause: Duration, found: &mut HotTurnResults) -> Result<()> {
        for number in 0..count {
            // Alternate the order, so that neither variant always runs after the other.
            for direct in [number % 2 == 0, number % 2 == 1] {
                sleep(pause);
                let (timing, series) = if direct {
                    (self.direct.turn(PROMPT)?, &mut found.direct)
                } else {
                    let turn = self.client.turn(PROFILE, "hot", PROMPT)?;
                    (turn.timing, &mut found.http)
                };
                series[0].add(timing.first);
                series[1].add(timing.end);
            }
        }
        Ok(())
    }
}

impl HotTurnResults {
    fn print(&self, name: &str) {
        let rows = |which: usize| {
            [
                ("pipe, directly", &self.direct[which]),
                ("angelia serve, /v1/messages over TCP", &self.http[which]),
            ]
        };
        report::print_table(&format!("{name}: first text of a hot turn"), &rows(0));
        report::print_table(&format!("{name}: whole 20-delta turn"), &rows(1));
    }
}

/// Measures with the fake CLI, which takes no time itself: the difference is our own cost.
pub(crate) fn fake(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let mut stage = HotTurnSetup::prepare(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    stage.turns(INSTANT_TURNS, Duration::ZERO, &mut HotTurnResults::default())?;
    let mut found = HotTurnResults::default();
    for _ in 0..rounds {
        stage.turns(INSTANT_TURNS, Duration::ZERO, &mut found)?;
    }
    found.print("fake");
    let first = &found.http[0];
    report.at_most("fake, /v1, first delta p50", ms(first.median()), 0.6, "ms");
    report.at_most("fake, /v1, first delta p99", ms(first.p99()), 2.0, "ms");
    Ok(())
}

/// Measures with both supported versions of Claude Code against the scripted model.
pub(crate) fn real(report: &mut GoalReport, rounds: u32) -> Result<()> {
    for claude in RealClaude::all()? {
        let model = ModelServer::start().context("no scripted model")?;
        let mut stage = HotTurnSetup::prepare(&claude.path, &model.base_url())?;
        stage.turns(2, PAUSE, &mut HotTurnResults::default())?;
        let mut found = HotTurnResults::default();
        for _ in 0..rounds {
            stage.turns(REAL_TURNS, PAUSE, &mut found)?;
        }
        let name = format!("claude {}", claude.version);
        found.print(&name);
        let added = ms(found.http[0].median()) - ms(found.direct[0].median());
        report.at_most(
            &format!("{name}, /v1, first text beyond directly driven"),
            added,
            1.0,
            "ms",
        );
    }
    Ok(())
}
