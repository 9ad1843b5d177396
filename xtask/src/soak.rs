//! Runs the soak tests at full length: thousands of requests that are aborted, repeated or never
//! finished, with agents that get killed; a daemon that is killed repeatedly while its agents run
//! tools; the built-in loop on a provider that fails at random; random scripts against a deny rule;
//! and the dashboard in five tabs. `cargo xtask test` runs short versions.

use std::process::ExitCode;

use anyhow::Result;

use crate::program::{cargo, succeed};

const REQUESTS: &str = "10000";
const KILLS: &str = "110";
const NATIVE_TURNS: &str = "500";

const SHELL_SECONDS: &str = "1800";
const DASHBOARD_SECONDS: &str = "3600";

/// Runs `cargo xtask soak [REQUESTS [SEED]]`, `cargo xtask soak kill [KILLS [SEED]]`, `cargo xtask
/// soak native [TURNS [SEED]]`, `cargo xtask soak shell [SECONDS [SEED]]` or `cargo xtask soak
/// dashboard [SECONDS]`.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.split_first() {
        Some((word, rest)) if word == "kill" => {
            run_test("kills::", "ANGELIA_SOAK_KILLS", KILLS, rest)
        }
        Some((word, rest)) if word == "native" => {
            run_test("native_turns::", "ANGELIA_SOAK_TURNS", NATIVE_TURNS, rest)
        }
        Some((word, rest)) if word == "shell" => run_shell(rest),
        Some((word, rest)) if word == "dashboard" => run_dashboard(rest),
        _ => run_test("under_load::", "ANGELIA_SOAK_REQUESTS", REQUESTS, arguments),
    }
}

fn run_test(test: &str, variable: &str, usual: &str, arguments: &[String]) -> Result<ExitCode> {
    let mut arguments = arguments.iter().map(String::as_str);
    let count = arguments.next().unwrap_or(usual);
    let seed = arguments.next().unwrap_or("1");
    succeed(
        cargo()
            .args(["test", "--workspace", "--test", "soak", "--"])
            .args([test, "--nocapture", "--test-threads=1"])
            .env(variable, count)
            .env("ANGELIA_SOAK_SEED", seed),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Runs random scripts in real shells with a fake `rm`, and checks that a deny rule refused those
/// that ran it.
fn run_shell(arguments: &[String]) -> Result<ExitCode> {
    let mut arguments = arguments.iter().map(String::as_str);
    let seconds = arguments.next().unwrap_or(SHELL_SECONDS);
    let seed = arguments.next().unwrap_or("1");
    succeed(
        cargo()
            .args(["test", "-p", "angelia-core", "--test", "permission", "--", "--nocapture"])
            .env("ANGELIA_SHELL_SOAK_SECONDS", seconds)
            .env("ANGELIA_SHELL_SOAK_SEED", seed),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps the page open in five tabs while turns run, and checks that nothing grows.
fn run_dashboard(arguments: &[String]) -> Result<ExitCode> {
    let seconds = arguments.first().map_or(DASHBOARD_SECONDS, String::as_str);
    succeed(
        cargo()
            .args(["test", "--workspace", "--test", "dashboard", "--", "--nocapture"])
            .arg("real_browser_stays_small")
            .env("DASHBOARD_SOAK_SECONDS", seconds),
    )?;
    Ok(ExitCode::SUCCESS)
}
