//! Measures our own loop beside the programs of vendors, in one run: `cargo xtask bench native
//! [--rounds N] [--only cold|steps|hot|faults|cache]`.
//!
//! - [`cold`]: the first request of a program that is started for one prompt, and its size.
//! - [`steps`]: the cost of one step, from the end of an answer to the next request.
//! - [`hot`]: a turn of a running daemon, the sandbox, interrupts, and the memory of idle sessions.
//! - [`faults`]: what each program makes of an answer that is broken.
//! - [`cache`]: how much of a long conversation a provider's cache has, beside [`hermes_agent`].
//! - [`peers`]: how each program is run against the scripted model; [`bench_model`]: that model.
//! - [`loop_daemon`]: our own daemon with a provider; [`finished_run`]: a program that has ended.
//!
//! Every program runs in every round. Only numbers of one run are comparable.

mod bench_model;
mod cache;
mod cold;
#[path = "../turn/daemon.rs"]
#[expect(dead_code, reason = "shared with another benchmark")]
mod daemon;
#[path = "../turn/direct.rs"]
#[expect(dead_code, reason = "shared with another benchmark")]
mod direct;
mod faults;
mod finished_run;
mod hermes_agent;
mod hot;
#[path = "../turn/http.rs"]
mod http;
mod loop_daemon;
mod peers;
mod steps;

use std::time::Duration;

use angelia_testkit::benchmark::{BenchHome, BenchOptions, report::GoalReport};
use anyhow::Result;

/// The timing of a turn as its client sees it.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "shared with another benchmark")]
struct Timing {
    /// Time until the first text delta.
    first: Duration,
    /// Time until the end of the turn is reported.
    end: Duration,
}

const PARTS: [&str; 5] = ["cold", "steps", "hot", "faults", "cache"];

fn main() -> Result<()> {
    let options = BenchOptions::read(&PARTS, &[])?;
    let wants = |part: &str| options.includes_part(part);
    let mut report = GoalReport::default();
    if wants("cold") {
        cold::measure(&mut report, options.rounds.unwrap_or(10))?;
    }
    if wants("hot") {
        hot::measure(&mut report, options.rounds.unwrap_or(50))?;
    }
    if wants("steps") {
        steps::measure(&mut report, options.rounds.unwrap_or(3))?;
    }
    if wants("faults") {
        faults::measure(&mut report)?;
    }
    if wants("cache") {
        cache::measure(&mut report)?;
    }
    report.print_goals();
    Ok(())
}
