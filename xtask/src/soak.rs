//! Runs the soak test at full length: thousands of requests that are aborted, repeated or never
//! finished, with agents that get killed. `cargo xtask test` runs the short version.

use std::process::ExitCode;

use anyhow::Result;

use crate::program::{cargo, succeed};

const REQUESTS: &str = "10000";

/// `cargo xtask soak [REQUESTS [SEED]]`
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut arguments = arguments.iter().map(String::as_str);
    let requests = arguments.next().unwrap_or(REQUESTS);
    let seed = arguments.next().unwrap_or("1");
    succeed(
        cargo()
            .args(["test", "-p", "angelia", "--test", "soak", "--"])
            .args(["under_load::", "--nocapture", "--test-threads=1"])
            .env("ANGELIA_SOAK_REQUESTS", requests)
            .env("ANGELIA_SOAK_SEED", seed),
    )?;
    Ok(ExitCode::SUCCESS)
}
