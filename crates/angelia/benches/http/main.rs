//! What the model APIs cost through us: `cargo xtask bench http [--rounds N] [--only PART]`.
//!
//! - [`hot`]: the first text of a hot turn over `/v1/messages`, beside the same program driven
//!   directly; with the real Claude Code and with an instant stand-in.
//! - [`load`]: as many whole turns, cheap requests and deltas as two cores allow.
//! - [`litellm`]: the same client at the `LiteLLM` proxy in front of a scripted model.
//! - [`daemon`], [`client`]: `angelia serve` as people run it, and who asks it over TCP.
//!
//! Every variant takes its turn in every round. Only numbers of one run are comparable.

mod client;
mod daemon;
#[path = "../turn/direct.rs"]
mod direct;
mod hot;
mod litellm;
mod load;

use std::time::Duration;

use angelia_testkit::measure::report::Report;
use anyhow::{Context as _, Result, bail};

/// How a turn went, seen by whoever asked for it.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Until the first piece of text.
    first: Duration,
    /// Until the answer was over.
    end: Duration,
}

const PARTS: [&str; 4] = ["real", "fake", "load", "litellm"];

struct Options {
    rounds: Option<u32>,
    only: Option<String>,
}

fn main() -> Result<()> {
    let options = Options::read()?;
    let wants = |part: &str| options.only.as_deref().is_none_or(|only| only == part);
    let mut report = Report::default();
    if wants("fake") {
        hot::fake(&mut report, options.rounds.unwrap_or(10))?;
    }
    if wants("load") {
        load::measure(&mut report, options.rounds.unwrap_or(3))?;
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

impl Options {
    fn read() -> Result<Self> {
        let mut options = Self {
            rounds: None,
            only: None,
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
                // What cargo adds.
                "--bench" => {}
                other => bail!("unknown argument {other:?}; use --rounds N, --only PART"),
            }
        }
        Ok(options)
    }
}
