//! Measures the cost of a turn through the bridge and through ACP, beside claude-agent-acp on the
//! same fake agent program: `cargo xtask bench hosts [--rounds N]`.
//!
//! - [`peer`]: a program that exchanges lines over its pipes.
//! - [`adapters`]: the four compared adapters, each with its own protocol; driving the agent
//!   program directly is one of them.
//!
//! Every adapter runs in every round. Only numbers of one run are comparable.

mod adapters;
mod peer;

use std::time::{Duration, Instant};

use angelia_testkit::{
    benchmark::{
        BenchHome, BenchOptions, process_usage,
        report::{self, GoalReport, SampleSeries, ms},
    },
    programs,
};
use anyhow::Result;

use crate::adapters::{AcpAdapter, Adapter, BridgeAdapter, DirectAdapter};

/// The timing of a turn as the host sees it.
#[derive(Clone, Copy, Debug)]
struct Timing {
    first: Duration,
    end: Duration,
    deltas: u32,
}

const SHORT_TURNS: u32 = 50;
const LONG_TURNS: u32 = 3;
const SHORT: u32 = 20;
const LONG: u32 = 2000;

#[derive(Default)]
struct AdapterResults {
    first: SampleSeries,
    end: SampleSeries,
    /// The deltas of all long turns, and the time they took.
    events: u32,
    span: Duration,
    /// The peak of the process's private memory (`RssAnon`) in megabytes.
    memory: f64,
}

impl AdapterResults {
    fn rate(&self) -> f64 {
        f64::from(self.events) / self.span.as_secs_f64()
    }
}

fn round(way: &mut dyn Adapter, found: &mut AdapterResults) -> Result<()> {
    for _ in 0..SHORT_TURNS {
        let turn = way.turn(SHORT)?;
        found.first.add(turn.first);
        found.end.add(turn.end);
    }
    for _ in 0..LONG_TURNS {
        let begun = Instant::now();
        found.events += way.turn(LONG)?.deltas;
        found.span += begun.elapsed();
    }
    found.memory = found.memory.max(process_usage::private_megabytes(way.pid())?);
    Ok(())
}

fn main() -> Result<()> {
    let rounds = BenchOptions::read(&[], &[])?.rounds.unwrap_or(10);
    let place = BenchHome::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    let mut direct = DirectAdapter::start(&place)?;
    let mut bridge = BridgeAdapter::start(&place)?;
    let mut ours = AcpAdapter::start_angelia(&place)?;
    let mut theirs = AcpAdapter::start_claude_agent_acp(&place)?;
    let names = ["pipe, directly", "angelia bridge", "angelia acp", "claude-agent-acp"];
    let mut found = <[AdapterResults; 4]>::default();
    for number in 0..=rounds {
        let ways: [&mut dyn Adapter; 4] = [&mut direct, &mut bridge, &mut ours, &mut theirs];
        for (way, found) in ways.into_iter().zip(&mut found) {
            // The first round is a warm-up and is not counted.
            let mut thrown_away = AdapterResults::default();
            let into = if number == 0 { &mut thrown_away } else { found };
            round(way, into)?;
        }
    }
    let rows = |pick: fn(&AdapterResults) -> &SampleSeries| -> Vec<(&str, &SampleSeries)> {
        names.into_iter().zip(found.iter().map(pick)).collect()
    };
    report::print_table("first delta of a 20-delta turn", &rows(|one| &one.first));
    report::print_table("whole 20-delta turn", &rows(|one| &one.end));
    report::print_section("2000-delta turns");
    for (name, one) in names.iter().zip(&found) {
        let (rate, memory) = (one.rate() / 1e3, one.memory);
        report::print_line(&format!(
            "{name:<20} {rate:>8.0}k deltas/s  {memory:>6.1} MB of its own"
        ));
    }
    let mut report = GoalReport::default();
    let [_, bridge, acp, adapter] = &found;
    for (name, one) in [("bridge", bridge), ("acp", acp)] {
        let first = ms(one.first.median());
        report.at_most(&format!("{name}, first delta p50"), first, 0.35, "ms");
        report.at_most(&format!("{name}, first delta p99"), ms(one.first.p99()), 2.0, "ms");
        let times = one.rate() / adapter.rate();
        report.at_least(&format!("{name}, events/s by the adapter's"), times, 6.0, "×");
        report.at_most(&format!("{name}, memory of its own"), one.memory, 8.0, "MB");
    }
    report.print_goals();
    Ok(())
}
