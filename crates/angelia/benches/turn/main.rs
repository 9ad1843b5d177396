//! Measures the cost of a turn through Angelia, beside the same program driven directly in one run:
//! `cargo xtask bench turn [--executor codex] [--rounds N] [--only real|fake|engine|governance|start]`.
//!
//! - [`real`]: both supported versions of Claude Code against a scripted model on loopback.
//! - [`codex`]: Codex against the same model; runs only with `--executor codex`.
//! - [`fake`]: the fake CLI, which takes no time itself, so that only our own cost is left.
//! - [`governance`]: a turn through the engine, beside an [`ungoverned`] one.
//! - [`start`]: the start-up time of our own program and its memory when idle.
//! - [`direct`] or [`app_server`], [`local`], [`daemon`]: the three ways to run a turn that are
//!   compared; [`angelia_variants`]: the last two together.
//! - [`rounds`]: the order in which the variants run.
//! - [`http`]: a client of the daemon's socket.
//!
//! Every variant runs in every round, so that other load on the machine affects all of them. Only
//! numbers of one run are comparable.

mod angelia_variants;
mod app_server;
mod codex;
mod daemon;
mod direct;
mod fake;
mod governance;
mod http;
mod local;
mod real;
mod rounds;
mod start;
mod ungoverned;

use std::time::Duration;

use angelia_testkit::benchmark::{
    BenchHome, BenchOptions, process_usage, report, report::GoalReport,
};
use anyhow::Result;

/// The timing of a turn as its client sees it.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Time until the first text delta.
    first: Duration,
    /// Time until the end of the turn is reported.
    end: Duration,
}

const PARTS: [&str; 5] = ["real", "fake", "engine", "governance", "start"];

const EXECUTORS: [&str; 2] = ["claude", "codex"];

fn main() -> Result<()> {
    let options = BenchOptions::read(&PARTS, &EXECUTORS)?;
    let wants = |part: &str| options.includes_part(part);
    let mut report = GoalReport::default();
    if options.executor.as_deref() == Some("codex") {
        codex::measure(&mut report, options.rounds.unwrap_or(20))?;
        report.print_goals();
        return Ok(());
    }
    if wants("start") {
        start::measure(&mut report)?;
    }
    // `engine` is the part of `fake` that starts no daemon.
    if wants("fake") || wants("engine") {
        fake::measure(&mut report, options.rounds.unwrap_or(20), wants("fake"))?;
    }
    if wants("governance") {
        governance::measure(&mut report, options.rounds.unwrap_or(20))?;
    }
    if wants("real") {
        real::measure(&mut report, options.rounds.unwrap_or(10))?;
    }
    report.print_goals();
    Ok(())
}
