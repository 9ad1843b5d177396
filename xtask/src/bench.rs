//! Benchmarks by name. Each prints its own table, with a baseline of the same minute beside it.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{
    program::{cargo, succeed},
    setup,
};

const NAMES: &str = "turn, bus";

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let Some((name, rest)) = arguments.split_first() else {
        bail!("which one? there is: {NAMES}");
    };
    match name.as_str() {
        "turn" => turn(rest)?,
        "bus" => bus(rest)?,
        name => bail!("there is no benchmark {name:?}; there is: {NAMES}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a turn costs through us, beside the agent program driven directly.
fn turn(arguments: &[String]) -> Result<()> {
    setup::run()?;
    let bench = ["bench", "--package", "angelia", "--bench", "turn", "--"];
    succeed(cargo().args(bench).args(arguments))
}

/// What a message costs through us, beside hermes-bus.
fn bus(arguments: &[String]) -> Result<()> {
    setup::run()?;
    let bench = ["bench", "--package", "angelia", "--bench", "bus", "--"];
    succeed(cargo().args(bench).args(arguments))
}
