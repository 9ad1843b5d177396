//! Runs a benchmark by name. Each one prints its own tables, next to a baseline measured in the
//! same run.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::{
    program::{cargo, succeed},
    setup,
};

/// - `turn`: the cost of a turn through Angelia, compared with driving the agent program directly.
/// - `http`: the cost of the model APIs, compared with driving the agent directly and with LiteLLM.
/// - `hosts`: the cost of the bridge and of ACP, compared with claude-agent-acp.
/// - `bus`: the cost of a message, compared with hermes-bus.
/// - `search`: the time of a search over 10,000 sessions, and the cost of indexing.
/// - `native`: the built-in loop's cost and handling of faults, compared with vendors' programs.
/// - `dashboard`: the page in a real browser: weight, long lists and turns, fast text, many tabs.
/// - `chat`: the cost of a chat message, with a thousand chats.
const NAMES: [&str; 8] = ["turn", "http", "hosts", "bus", "search", "native", "dashboard", "chat"];

/// The programs that a benchmark compares against and that nothing else needs, by folder.
const PEERS: [(&str, &str); 3] = [
    ("http", "bench-python/litellm"),
    ("native", "bench-npm/pi"),
    ("native", "bench-python/hermes-agent"),
];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let known = NAMES.join(", ");
    let Some((name, rest)) = arguments.split_first() else {
        bail!("name a benchmark: {known}");
    };
    if !NAMES.contains(&name.as_str()) {
        bail!("there is no benchmark {name:?}; choose one of: {known}");
    }
    setup::run()?;
    for (_, folder) in PEERS.iter().filter(|(benchmark, _)| *benchmark == name) {
        if let Err(error) = setup::install_benchmark_peer(folder) {
            eprintln!("continuing without {folder}: {error:#}");
        }
    }
    succeed(command(name).args(rest))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command that runs a benchmark; arguments appended to it go to the benchmark.
pub(crate) fn command(name: &str) -> Command {
    let mut command = cargo();
    command.args(["bench", "--package", "angelia", "--bench", name, "--"]);
    command
}
