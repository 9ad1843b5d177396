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
    BenchHome,
    angelia_variants::{AngeliaVariants, PROMPT, VariantResults},
    daemon::SocketDaemon,
    direct::DirectClaude,
    local::InProcessEngine,
    report::{self, GoalReport, SampleSeries, ms},
    rounds::RoundPlan,
};

/// The idle time of a process that was started in advance, before its turn.
const PREWARM_IDLE: Duration = Duration::from_millis(1500);

/// The time a pool needs to replace a process that was taken from it, plus the replacement's idle
/// time.
const POOL_REFILL: Duration = Duration::from_secs(3);

const PLAN: RoundPlan<ClaudeSetup, ClaudeResults> = RoundPlan {
    hot: [
        ClaudeSetup::hot_direct,
        |stage, found| stage.ours.hot_local(&mut found.local),
        |stage, found| stage.ours.hot_daemon(&mut found.daemon),
    ],
    others: [
        ClaudeSetup::warm_direct,
        |stage, found| stage.ours.new_local(&mut found.local),
        |stage, found| stage.ours.new_daemon(&mut found.daemon),
        ClaudeSetup::cold,
    ],
    pause: Duration::from_millis(120),
};

#[derive(Default)]
struct ClaudeResults {
    hot: SampleSeries,
    warm: SampleSeries,
    cold: SampleSeries,
    local: VariantResults,
    daemon: VariantResults,
}

struct ClaudeSetup {
    hot: DirectClaude,
    ours: AngeliaVariants,
    place: BenchHome,
}

impl ClaudeSetup {
    fn prepare(claude: &RealClaude, model: &ModelServer) -> Result<Self> {
        let place = BenchHome::new(&claude.path, &model.base_url())?;
        let hot = DirectClaude::start(&place.program, &place.environment(), &place.work_dir())?;
        let daemon = SocketDaemon::start(&place, 1)?;
        let local = InProcessEngine::start(&place, 1)?;
        let ours = AngeliaVariants::start(local, daemon, POOL_REFILL)?;
        let mut this = Self { hot, ours, place };
        // Warm up: one-time costs must not count.
        PLAN.hot_turns(&mut this, &mut ClaudeResults::default())?;
        sleep(POOL_REFILL);
        Ok(this)
    }

    fn prewarmed(&self) -> Result<DirectClaude> {
        DirectClaude::start(&self.place.program, &self.place.environment(), &self.place.work_dir())
    }

    fn hot_direct(&mut self, found: &mut ClaudeResults) -> Result<()> {
        found.hot.add(self.hot.turn(PROMPT)?.first);
        Ok(())
    }

    fn warm_direct(&mut self, found: &mut ClaudeResults) -> Result<()> {
        let mut process = self.prewarmed()?;
        sleep(PREWARM_IDLE);
        found.warm.add(process.turn(PROMPT)?.first);
        Ok(())
    }

    /// Starts a process and writes everything at once: the fastest unprepared way to a first
    /// answer.
    fn cold(&mut self, found: &mut ClaudeResults) -> Result<()> {
        let begun = Instant::now();
        let mut process = DirectClaude::spawn(
            &self.place.program,
            &self.place.environment(),
            &self.place.work_dir(),
        )?;
        process.initialize()?;
        found.cold.add(process.turn_since(begun, PROMPT)?.first);
        Ok(())
    }
}

pub(crate) fn measure(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let model = ModelServer::start()?;
    model.set_recording(false);
    for claude in RealClaude::all()? {
        let found = version(&claude, &model, rounds)
            .with_context(|| format!("Claude Code {}", claude.version))?;
        report_results(report, claude.version, &found);
    }
    Ok(())
}

fn version(claude: &RealClaude, model: &ModelServer, rounds: u32) -> Result<ClaudeResults> {
    let mut stage = ClaudeSetup::prepare(claude, model)?;
    let mut found = ClaudeResults::default();
    PLAN.run(rounds, &mut stage, &mut found)?;
    Ok(found)
}

fn report_results(report: &mut GoalReport, version: &str, found: &ClaudeResults) {
    report::print_table(
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
