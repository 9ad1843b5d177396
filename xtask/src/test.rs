//! Everything a change has to pass, in the order in which it fails cheapest.

use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};

use crate::{
    program::{cargo, command, output, succeed},
    setup,
    steps::Steps,
    tidy,
};

/// Installed when the machine has no cargo-nextest of its own.
const NEXTEST: &str = "0.9.143";

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut steps = Steps::default();
    if !steps.run("setup", setup::run) {
        return Ok(steps.close());
    }
    steps.run("fmt", || succeed(cargo().args(["fmt", "--all", "--check"])));
    steps.run("clippy", || {
        let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        succeed(cargo().args(clippy))
    });
    steps.run("tidy", || {
        let problems = tidy::check()?;
        ensure!(problems == 0, "{problems} problems");
        Ok(())
    });
    let mut runner = None;
    steps.run("runner", || {
        runner = Some(find_runner()?);
        Ok(())
    });
    if let Some(mut runner) = runner {
        steps.run("tests", || succeed(runner.arg("--workspace").args(arguments)));
    }
    Ok(steps.close())
}

/// cargo-nextest as installed, or installed into `target/tools`; plain `cargo test` as a last resort.
fn find_runner() -> Result<Command> {
    if output(cargo().args(["nextest", "--version"]))?.is_some() {
        let mut runner = cargo();
        runner.args(["nextest", "run"]);
        return Ok(runner);
    }
    let tools = crate::root().join("target/tools");
    let own = tools.join("bin/cargo-nextest");
    if !own.is_file() {
        eprintln!("cargo-nextest is not installed: building it into target/tools, once");
        let install = ["install", "cargo-nextest", "--locked", "--version", NEXTEST, "--root"];
        if let Err(error) = succeed(cargo().args(install).arg(&tools)) {
            eprintln!("{error:#}; going on with cargo test");
            let mut runner = cargo();
            runner.arg("test");
            return Ok(runner);
        }
    }
    let mut runner = command(own);
    runner.args(["nextest", "run"]);
    Ok(runner)
}
