//! Measures the cost of the model APIs: `cargo xtask bench http [--rounds N] [--only PART]`.
//!
//! - [`hot`]: the first text of a hot turn over `/v1/messages`, beside the same program driven
//!   directly; with the real Claude Code and with an instant stand-in.
//! - [`load`]: the throughput of whole turns, cheap requests and deltas on two cores.
//! - [`shares`]: how much a greedy key disturbs a polite one.
//! - [`litellm`]: the same client at the `LiteLLM` proxy in front of a scripted model.
//! - [`daemon`], [`client`]: `angelia serve` as users run it, and its TCP client.
//!
//! Every variant runs in every round. Only numbers of one run are comparable.

mod client;
mod daemon;
#[path = "../turn/direct.rs"]
mod direct;
mod hot;
mod litellm;
mod load;
mod shares;

use std::time::Duration;

use angelia_testkit::benchmark::{BenchOptions, report::GoalReport};
use anyhow::Result;

/// The timing of a turn as its client sees it.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Time until the first text delta.
    first: Duration,
    /// Time until the end of the answer.
    end: Duration,
}

const PARTS: [&str; 5] = ["real", "fake", "load", "shares", "litellm"];

fn main() -> Result<()> {
    let options = BenchOptions::read(&PARTS, &[])?;
    let wants = |part: &str| options.includes_part(part);
    let mut report = GoalReport::default();
    if wants("fake") {
        hot::fake(&mut report, options.rounds.unwrap_or(10))?;
    }
    if wants("load") {
        load::measure(&mut report, options.rounds.unwrap_or(3))?;
    }
    if wants("shares") {
        shares::measure(&mut report, options.rounds.unwrap_or(5))?;
    }
    if wants("litellm") {
        litellm::measure(options.rounds.unwrap_or(3))?;
    }
    if wants("real") {
        hot::real(&mut report, options.rounds.unwrap_or(10))?;
    }
    report.print_goals();
    Ok(())
}
