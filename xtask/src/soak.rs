//! Runs the soak tests at full length: thousands of requests that are aborted, repeated or never
//! finished, with agents that get killed; and a daemon that is killed again and again while its
//! agents run tools. `cargo xtask test` runs short versions.

use std::process::ExitCode;

use anyhow::Result;

use crate::program::{cargo, succeed};

const REQUESTS: &str = "10000";
const KILLS: &str = "110";

/// `cargo xtask soak [REQUESTS [SEED]]` or `cargo xtask soak kill [KILLS [SEED]]`
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.split_first() {
        Some((word, rest)) if word == "kill" => {
            run_test("kills::", "ANGELIA_SOAK_KILLS", KILLS, rest)
        }
        _ => run_test("under_load::", "ANGELIA_SOAK_REQUESTS", REQUESTS, arguments),
    }
}

fn run_test(test: &str, variable: &str, usual: &str, arguments: &[String]) -> Result<ExitCode> {
    let mut arguments = arguments.iter().map(String::as_str);
    let count = arguments.next().unwrap_or(usual);
    let seed = arguments.next().unwrap_or("1");
    succeed(
        cargo()
            .args(["test", "-p", "angelia", "--test", "soak", "--"])
            .args([test, "--nocapture", "--test-threads=1"])
            .env(variable, count)
            .env("ANGELIA_SOAK_SEED", seed),
    )?;
    Ok(ExitCode::SUCCESS)
}
