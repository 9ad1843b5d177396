//! Runs everything that a change must pass, cheapest checks first, in three sizes.

use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};

use crate::{
    book, dependencies, dist,
    program::{cargo, command, output, succeed},
    setup, soak,
    steps::Steps,
    tidy,
};

/// The version to build if cargo-nextest is not installed on the machine.
const NEXTEST_VERSION: &str = "0.9.143";

/// How much of the test suite runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SuiteSize {
    /// Installs nothing and starts no real agent, for quick runs between two edits.
    Quick,
    /// The size that CI runs.
    Standard,
    /// Adds everything that takes too long to run for every change.
    Full,
}

impl SuiteSize {
    /// Returns the profile name in `.config/nextest.toml`.
    fn profile(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "default",
            Self::Full => "full",
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (size, arguments) = match arguments.split_first() {
        Some((word, rest)) if word == "quick" => (SuiteSize::Quick, rest),
        Some((word, rest)) if word == "full" => (SuiteSize::Full, rest),
        _ => (SuiteSize::Standard, arguments),
    };
    let mut steps = Steps::default();
    if size != SuiteSize::Quick && !steps.run("setup", setup::run) {
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
    steps.run("dependencies", dependencies::check);
    if size != SuiteSize::Quick {
        steps.run("fuzz targets", check_fuzz_targets);
    }
    let mut runner = None;
    steps.run("runner", || {
        runner = Some(find_runner(size)?);
        Ok(())
    });
    if let Some(mut runner) = runner {
        if size == SuiteSize::Full {
            // Read by `RealClaude::for_product_tests`.
            runner.env("ANGELIA_TEST_VERSIONS", "all");
        }
        steps.run("tests", || succeed(runner.arg("--workspace").args(arguments)));
    }
    if size == SuiteSize::Full {
        steps.run("book", book::build);
        steps.run("otel", check_otel);
        steps.run("large clients", check_large_clients);
        steps.run("packages", dist::build_and_check);
        steps.run("soak", || soak::run(&[]).map(drop));
        steps.run("soak kill", || soak::run(&["kill".to_owned()]).map(drop));
        steps.run("soak native", || soak::run(&["native".to_owned()]).map(drop));
    }
    Ok(steps.close())
}

/// Type-checks the fuzz targets: they are a separate workspace, so no other step compiles them.
fn check_fuzz_targets() -> Result<()> {
    let folder = crate::root().join("target/fuzz");
    let check = ["check", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"];
    succeed(cargo().args(check).arg(folder))
}

/// Lints and tests the feature `otel`, which no other step builds.
fn check_otel() -> Result<()> {
    let feature = ["--package", "angelia", "--features", "otel"];
    let deny = ["--all-targets", "--", "-D", "warnings"];
    succeed(cargo().arg("clippy").args(feature).args(deny))?;
    succeed(find_runner(SuiteSize::Full)?.args(feature).args(["--test", "otel"]))
}

/// Tests clients that are too large to be installed for every change.
fn check_large_clients() -> Result<()> {
    setup::install_large_clients()?;
    let test = ["test", "-p", "angelia", "--test", "real_clients", "--", "--ignored", "setup::"];
    succeed(cargo().args(test))
}

/// Returns the command that runs the tests: the machine's cargo-nextest, or one built into
/// `target/tools`, or plain `cargo test` as a last resort.
fn find_runner(size: SuiteSize) -> Result<Command> {
    let run = ["nextest", "run", "--profile", size.profile()];
    if output(cargo().args(["nextest", "--version"]))?.is_some() {
        let mut runner = cargo();
        runner.args(run);
        return Ok(runner);
    }
    let tools = crate::root().join("target/tools");
    let own = tools.join("bin/cargo-nextest");
    if !own.is_file() {
        eprintln!("cargo-nextest is not installed: building it into target/tools, once");
        let install =
            ["install", "cargo-nextest", "--locked", "--version", NEXTEST_VERSION, "--root"];
        if let Err(error) = succeed(cargo().args(install).arg(&tools)) {
            eprintln!("{error:#}; continuing with cargo test");
            let mut runner = cargo();
            runner.arg("test");
            return Ok(runner);
        }
    }
    let mut runner = command(own);
    runner.args(run);
    Ok(runner)
}
