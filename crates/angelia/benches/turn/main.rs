//! What a turn costs through us, beside the same program driven directly in the same minute:
//! `cargo xtask bench turn [--executor codex] [--rounds N] [--only real|fake|engine|governance|start]`.
//!
//! - [`real`]: both supported versions of Claude Code against a scripted model on loopback.
//! - [`codex`]: Codex against the same model, all of it with `--executor codex`.
//! - [`fake`]: an instant stand-in, where nothing but our own cost is left.
//! - [`governance`]: a turn that is watched over, beside one that is not ([`ungoverned`]).
//! - [`start`]: how long our own program takes to be there, and how much memory it holds.
//! - [`direct`] or [`app_server`], [`local`], [`daemon`]: the three ways to a turn that are compared.
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
mod real;
mod start;
mod ungoverned;

use std::time::Duration;

use angelia_testkit::measure::{Place, processor, report, report::Report};
use anyhow::{Context as _, Result, bail};

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

struct Options {
    rounds: Option<u32>,
    only: Option<String>,
    executor: Option<String>,
}

fn main() -> Result<()> {
    let options = Options::read()?;
    let wants = |part: &str| options.only.as_deref().is_none_or(|only| only == part);
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

impl Options {
    fn read() -> Result<Self> {
        let mut options = Self {
            rounds: None,
            only: None,
            executor: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--rounds" => {
                    let count = words.next().context("--rounds needs a number")?;
                    let count = count.parse().ok().filter(|count| *count > 0);
                    options.rounds = Some(count.context("--rounds needs a number above 0")?);
                }
                "--only" => {
                    let part = words.next().unwrap_or_default();
                    if !PARTS.contains(&part.as_str()) {
                        bail!("--only needs one of {}", PARTS.join(", "));
                    }
                    options.only = Some(part);
                }
                "--executor" => {
                    let executor = words.next().unwrap_or_default();
                    if !EXECUTORS.contains(&executor.as_str()) {
                        bail!("--executor needs one of {}", EXECUTORS.join(", "));
                    }
                    options.executor = Some(executor);
                }
                // What cargo adds.
                "--bench" => {}
                other => bail!(
                    "unknown argument {other:?}; use --executor NAME, --rounds N, --only PART"
                ),
            }
        }
        Ok(options)
    }
}
