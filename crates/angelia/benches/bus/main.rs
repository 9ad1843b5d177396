//! Compares the bus with hermes-bus, with the same client and in one run:
//! `cargo xtask bench bus [--rounds N] [--only throughput|alone|paced|stalled|notify|endpoints]`.
//!
//! - [`daemons`]: Angelia's bus and hermes-bus, each in its own folder.
//! - [`client`]: sends and receives; asks for `accepted` where the daemon supports it.
//! - [`measures`]: the measurements. [`figures`]: their results, beside the goals.
//!
//! Angelia's bus answers `accepted` when a message is synced to disk; hermes-bus answers nothing
//! and stores nothing. Every measurement alternates between the two, so that other load on the
//! machine affects both.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::cast_precision_loss, reason = "nobody reads more than four digits of a figure")]

mod client;
mod daemons;
mod figures;
mod measures;

use anyhow::{Context as _, Result, bail};

use crate::figures::Figures;

const PARTS: [&str; 6] = ["throughput", "alone", "paced", "stalled", "notify", "endpoints"];

fn main() -> Result<()> {
    let mut rounds = 3;
    let mut only = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // `cargo bench` adds this flag.
            "--bench" => {}
            "--rounds" => rounds = arguments.next().context("how many?")?.parse()?,
            "--only" => only = arguments.next(),
            other => bail!("{other:?} is not an option: --rounds N, --only {PARTS:?}"),
        }
    }
    let wants = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let mut figures = Figures::default();
    for round in 1..=rounds {
        println!("round {round} of {rounds}");
        if wants("throughput") {
            measures::throughput(&mut figures)?;
        }
        if wants("alone") {
            measures::one_at_a_time(&mut figures)?;
        }
        if wants("paced") {
            measures::paced(&mut figures)?;
        }
        if wants("stalled") {
            measures::stalled(&mut figures)?;
        }
    }
    if wants("notify") {
        measures::notify(&mut figures)?;
    }
    if wants("endpoints") {
        measures::many_endpoints(&mut figures)?;
    }
    figures.print();
    Ok(())
}
