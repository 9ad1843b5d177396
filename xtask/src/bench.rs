//! Benchmarks by name. Each prints its own table, with a baseline of the same minute beside it.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::{
    program::{cargo, succeed},
    setup,
};

/// - `turn`: what a turn costs through us, beside the agent program driven directly.
/// - `http`: what the model APIs cost, beside the agent program driven directly and LiteLLM.
/// - `hosts`: what the bridge and ACP cost, beside claude-agent-acp.
/// - `bus`: what a message costs, beside hermes-bus.
const NAMES: [&str; 4] = ["turn", "http", "hosts", "bus"];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let known = NAMES.join(", ");
    let Some((name, rest)) = arguments.split_first() else {
        bail!("which one? there is: {known}");
    };
    if !NAMES.contains(&name.as_str()) {
        bail!("there is no benchmark {name:?}; there is: {known}");
    }
    setup::run()?;
    if let Err(error) = setup::peers() {
        eprintln!("without what only benchmarks run beside us: {error:#}");
    }
    succeed(command(name).args(rest))?;
    Ok(ExitCode::SUCCESS)
}

/// What is said behind it is for the benchmark.
pub(crate) fn command(name: &str) -> Command {
    let mut command = cargo();
    command.args(["bench", "--package", "angelia", "--bench", name, "--"]);
    command
}
