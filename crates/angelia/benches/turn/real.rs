//! Measures both supported versions of Claude Code against the scripted model: (a) a hot process
//! driven directly, (a') a process that was started and initialized in advance, (b) our hot
//! session, (c) our new session from the warm pool, (d) a cold start.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use angelia_testkit::{model_server::ModelServer, real::RealClaude};
use anyhow::{Context as _, Result};

use crate::{
    Place,
    daemon::Daemon,
    direct::Direct,
    local::Local,
    ours::{Ours, PROMPT, Way},
    report::{self, Report, Series, ms},
    rounds::Plan,
};

/// The idle time of a process that was started in advance, before its turn.
const IDLE: Duration = Duration::from_millis(1500);

/// The time a pool needs to replace a process that was taken from it, plus the replacement's idle
/// time.
const REFILL: Duration = Duration::from_secs(3);

const PLAN: Plan<Stage, Found> = Plan {
    hot: [
        Stage::hot_direct,
        |stage, found| stage.ours.hot_local(&mut found.local),
        |stage, found| stage.ours.hot_daemon(&mut found.daemon),
    ],
    others: [
        Stage::warm_direct,
        |stage, found| stage.ours.new_local(&mut found.local),
        |stage, found| stage.ours.new_daemon(&mut found.daemon),
        Stage::cold,
    ],
    pause: Duration::from_millis(120),
};

#[derive(Default)]
struct Found {
    hot: Series,
    warm: Series,
    cold: Series,
    local: Way,
    daemon: Way,
}

struct Stage {
    hot: Direct,
    ours: Ours,
    place: Place,
}

impl Stage {
    fn set(claude: &RealClaude, model: &ModelServer) -> Result<Self> {
        let place = Place::new(&claude.path, &model.base_url())?;
        let hot = Direct::start(&place.program, &place.environment(), &place.work())?;
        let daemon = Daemon::start(&place, 1)?;
        let local = Local::start(&place, 1)?;
        let ours = Ours::start(local, daemon, REFILL)?;
        let mut this = Self { hot, ours, place };
        // Warm up: one-time costs must not count.
        PLAN.hot_turns(&mut this, &mut Found::default())?;
        sleep(REFILL);
        Ok(this)
    }

    fn prewarmed(&self) -> Result<Direct> {
        Direct::start(&self.place.program, &self.place.environment(), &self.place.work())
    }

    fn hot_direct(&mut self, found: &mut Found) -> Result<()> {
        found.hot.add(self.hot.turn(PROMPT)?.first);
        Ok(())
    }

    fn warm_direct(&mut self, found: &mut Found) -> Result<()> {
        let mut process = self.prewarmed()?;
        sleep(IDLE);
        found.warm.add(process.turn(PROMPT)?.first);
        Ok(())
    }

    /// Starts a process and writes everything at once: the fastest unprepared way to a first
    /// answer.
    fn cold(&mut self, found: &mut Found) -> Result<()> {
        let begun = Instant::now();
        let mut process =
            Direct::spawn(&self.place.program, &self.place.environment(), &self.place.work())?;
        process.initialize()?;
        found.cold.add(process.turn_since(begun, PROMPT)?.first);
        Ok(())
    }
}

pub(crate) fn measure(report: &mut Report, rounds: u32) -> Result<()> {
    let model = ModelServer::start()?;
    model.set_recording(false);
    for claude in RealClaude::all()? {
        let found = version(&claude, &model, rounds)
            .with_context(|| format!("Claude Code {}", claude.version))?;
        tell(report, claude.version, &found);
    }
    Ok(())
}

fn version(claude: &RealClaude, model: &ModelServer, rounds: u32) -> Result<Found> {
    let mut stage = Stage::set(claude, model)?;
    let mut found = Found::default();
    PLAN.run(rounds, &mut stage, &mut found)?;
    Ok(found)
}

fn tell(report: &mut Report, version: &str, found: &Found) {
    report::table(
        &format!("real: Claude Code {version}, first text delta"),
        &[
            ("(a)  hot process, directly", &found.hot),
            ("(b)  hot session, engine in this process", &found.local.hot),
            ("(b)  hot session, angelia serve over its socket", &found.daemon.hot),
            ("(a') pre-warmed process, directly", &found.warm),
            ("(c)  new session, engine in this process", &found.local.new),
            ("(c)  new session, angelia serve over its socket", &found.daemon.new),
            ("(d)  cold start, directly", &found.cold),
        ],
    );
    let hot = ms(found.hot.median());
    let warm = ms(found.warm.median());
    let cold = ms(found.cold.median());
    let ways = [
        ("engine", &found.local.hot, &found.local.new),
        ("socket", &found.daemon.hot, &found.daemon.new),
    ];
    for (way, our_hot, our_warm) in ways {
        let (b, c) = (ms(our_hot.median()), ms(our_warm.median()));
        report.at_most(&format!("{version}, {way}, b ≤ a + 1 ms"), b, hot + 1.0, "ms");
        report.at_most(&format!("{version}, {way}, c ≤ 1.05 × a'"), c, 1.05 * warm, "ms");
        // A pool cannot be faster than the process it hands out, so show what is possible.
        let possible = cold / warm;
        let what = format!("{version}, {way}, d / c (d / a' is {possible:.2})");
        report.at_least(&what, cold / c, 6.0, "×");
    }
}
