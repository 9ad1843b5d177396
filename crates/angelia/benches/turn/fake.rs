//! Measures with the fake CLI, which takes no time itself: the difference is our own cost.

use std::time::{Duration, Instant};

use angelia_core::model::SessionId;
use angelia_testkit::programs;
use anyhow::Result;

use crate::{
    BenchHome,
    daemon::SocketDaemon,
    direct::DirectClaude,
    http::SocketClient,
    local::InProcessEngine,
    process_usage,
    report::{self, GoalReport, SampleSeries, ms, us},
};

/// Short turns of each variant in a round.
const SHORT_TURNS: u32 = 50;
/// Long turns of each variant in a round.
const LONG_TURNS: u32 = 5;
const DELTAS: u32 = 2000;
const VIEWERS: usize = 8;

/// The results of one way to run the fake CLI.
#[derive(Default)]
struct FakeCliResults {
    first: SampleSeries,
    end: SampleSeries,
    long: SampleSeries,
    /// The events and processor time of all long turns.
    events: u32,
    processor: Duration,
}

struct FakeCliSetup {
    direct: DirectClaude,
    local: InProcessEngine,
    session: SessionId,
    served: Option<DaemonSetup>,
    _place: BenchHome,
}

struct DaemonSetup {
    client: SocketClient,
    session: String,
    daemon: SocketDaemon,
}

impl FakeCliSetup {
    fn prepare(with_daemon: bool) -> Result<Self> {
        let place = BenchHome::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
        let direct = DirectClaude::start(&place.program, &place.environment(), &place.work_dir())?;
        let local = InProcessEngine::start(&place, 0)?;
        let session = local.create_session()?;
        let served = if with_daemon {
            let daemon = SocketDaemon::start(&place, 0)?;
            let mut client = daemon.client()?;
            let session = client.create_session()?;
            Some(DaemonSetup { client, session, daemon })
        } else {
            None
        };
        Ok(Self { direct, local, session, served, _place: place })
    }

    fn short_turns(&mut self, found: &mut [FakeCliResults; 4]) -> Result<()> {
        let prompt = "WORDS:20";
        for _ in 0..SHORT_TURNS {
            let direct = self.direct.turn(prompt)?;
            let local = self.local.turn(self.session, prompt)?;
            let mut timings = vec![(0, direct), (1, local)];
            if let Some(served) = &mut self.served {
                timings.push((3, served.client.turn(&served.session, prompt)?));
            }
            for (which, timing) in timings {
                found[which].first.add(timing.first);
                found[which].end.add(timing.end);
            }
        }
        Ok(())
    }

    fn long_turns(&mut self, [direct, one, many, daemon]: &mut [FakeCliResults; 4]) -> Result<()> {
        let prompt = format!("WORDS:{DELTAS}");
        for _ in 0..LONG_TURNS {
            let before = process_usage::own_cpu_time()?;
            direct.long.add(self.direct.turn(&prompt)?.end);
            direct.add(DELTAS, before, process_usage::own_cpu_time()?);

            for (viewers, found) in [(1, &mut *one), (VIEWERS, &mut *many)] {
                let before = process_usage::own_cpu_time()?;
                let begun = Instant::now();
                let events = self.local.watched_turn(self.session, &prompt, viewers)?;
                found.long.add(begun.elapsed());
                found.add(events, before, process_usage::own_cpu_time()?);
            }

            if let Some(served) = &mut self.served {
                let pid = served.daemon.pid();
                let before = process_usage::cpu_time(pid)?;
                daemon.long.add(served.client.turn(&served.session, &prompt)?.end);
                daemon.add(DELTAS, before, process_usage::cpu_time(pid)?);
            }
        }
        Ok(())
    }
}

impl FakeCliResults {
    fn add(&mut self, events: u32, before: Duration, after: Duration) {
        self.events += events;
        self.processor += after.saturating_sub(before);
    }

    fn cost(&self) -> Duration {
        self.processor / self.events.max(1)
    }

    fn rate_per_core(&self) -> f64 {
        f64::from(self.events) / self.processor.as_secs_f64()
    }

    fn throughput(&self, name: &str) -> String {
        let wall = f64::from(DELTAS) / self.long.median().as_secs_f64() / 1e3;
        let per_core = self.rate_per_core() / 1e3;
        let cost = us(self.cost());
        format!("{name:<52} {cost:>6.2} µs/event  {per_core:>6.0}k/s per core  {wall:>6.0}k/s wall")
    }
}

pub(crate) fn measure(report: &mut GoalReport, rounds: u32, with_daemon: bool) -> Result<()> {
    let mut stage = FakeCliSetup::prepare(with_daemon)?;
    // Warm up: one-time costs must not count.
    let mut thrown_away = <[FakeCliResults; 4]>::default();
    stage.short_turns(&mut thrown_away)?;
    stage.long_turns(&mut thrown_away)?;
    let mut found = <[FakeCliResults; 4]>::default();
    for _ in 0..rounds {
        stage.short_turns(&mut found)?;
        stage.long_turns(&mut found)?;
    }
    let [direct, one, many, daemon] = &found;

    let names = ["pipe, directly", "engine in this process", "angelia serve, over its socket"];
    let [pipe, engine, socket] = names;
    let rows = |pick: fn(&FakeCliResults) -> &SampleSeries| {
        let mut rows = vec![(pipe, pick(direct)), (engine, pick(one))];
        rows.extend(with_daemon.then(|| (socket, pick(daemon))));
        rows
    };
    report::print_table("fake: first delta of a 20-delta turn", &rows(|found| &found.first));
    report::print_table("fake: whole 20-delta turn", &rows(|found| &found.end));
    let mut long = rows(|found| &found.long);
    long.insert(2, ("engine in this process, 8 viewers", &many.long));
    report::print_table("fake: whole 2000-delta turn", &long);
    report::print_section("fake: processor time of our own process, 2000-delta turns");
    report::print_line(&direct.throughput("reader of the pipe (parses nothing, stores nothing)"));
    report::print_line(&one.throughput("engine, log and 1 viewer"));
    report::print_line(&many.throughput("engine, log and 8 viewers"));
    if with_daemon {
        report::print_line(&daemon.throughput("angelia serve: engine, log, 1 viewer by HTTP"));
    }

    report.at_most("fake, engine, first delta p50", ms(one.first.median()), 0.3, "ms");
    report.at_most("fake, engine, first delta p99", ms(one.first.p99()), 1.0, "ms");
    for (name, found) in [("1 viewer", one), ("8 viewers", many)] {
        let rate = found.rate_per_core() / 1e3;
        report.at_least(&format!("fake, engine, {name}"), rate, 300.0, "k events/s per core");
        report.at_most(&format!("fake, engine, {name}"), us(found.cost()), 3.0, "µs per delta");
    }
    if with_daemon {
        report.at_most("fake, socket, first delta p99", ms(daemon.first.p99()), 1.0, "ms");
        report.at_most("fake, socket", us(daemon.cost()), 3.0, "µs per delta");
    }
    Ok(())
}
