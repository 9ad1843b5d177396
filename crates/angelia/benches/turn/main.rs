//! What a turn costs through us, beside the same program driven directly in the same minute:
//! `cargo xtask bench turn [--executor codex] [--rounds N] [--only real|fake|engine|governance|start]`.
//!
//! - [`real`]: both supported versions of Claude Code against a scripted model on loopback.
//! - [`codex`]: Codex against the same model, all of it with `--executor codex`.
//! - [`fake`]: an instant stand-in, where nothing but our own cost is left.
//! - [`governance`]: a turn that is watched over, beside one that is not ([`ungoverned`]).
//! - [`start`]: how long our own program takes to be there, and how much memory it holds.
//! - [`direct`] or [`app_server`], [`local`], [`daemon`]: the three ways to a turn that are compared;
//!   [`ours`]: the last two together.
//! - [`rounds`]: who takes its turn when.
//! - [`http`]: a client of the daemon's socket.
//!
//! Every variant takes its turn in every round, so what the machine does meanwhile meets all of
//! them. Only numbers of one run are comparable.

mod app_server;
mod codex;
mod daemon;
mod direct;
mod fake;
mod governance;
mod http;
mod local;
mod ours;
mod real;
mod rounds;
mod start;
mod ungoverned;

use std::time::Duration;

use angelia_testkit::measure::{Options, Place, processor, report, report::Report};
use anyhow::Result;

/// How a turn went, seen by whoever asked for it.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Until the first piece of text.
    first: Duration,
    /// Until it was said that the turn is over.
    end: Duration,
}

const PARTS: [&str; 5] = ["real", "fake", "engine", "governance", "start"];

const EXECUTORS: [&str; 2] = ["claude", "codex"];

fn main() -> Result<()> {
    let options = Options::read(&PARTS, &EXECUTORS)?;
    let wants = |part: &str| options.wants(part);
    let mut report = Report::default();
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
