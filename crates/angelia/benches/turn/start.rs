//! Measures the start-up time of our own program and the memory of an idle daemon.

use std::{
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use angelia_testkit::programs;
use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    BenchHome,
    daemon::{PROGRAM, SocketDaemon},
    process_usage,
    report::{self, GoalReport, SampleSeries, ms},
};

const STARTS: u32 = 50;
const SERVES: u32 = 10;

/// By this time after the start, the daemon has released the memory it needed only to start.
const SETTLE_DELAY: Duration = Duration::from_secs(2);

pub(crate) fn measure(report: &mut GoalReport) -> Result<()> {
    let place = BenchHome::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    let mut floor = SampleSeries::default();
    let mut version = SampleSeries::default();
    for _ in 0..STARTS {
        floor.add(run(&place, "true", &[])?);
        version.add(run(&place, PROGRAM, &["--version"])?);
    }
    let mut ready = SampleSeries::default();
    let mut again = SampleSeries::default();
    let profiles = json!({"default": {"executor": "claude", "warm": 0}});
    for _ in 0..SERVES {
        let home = BenchHome::new(&place.program, "http://127.0.0.1:9")?;
        ready.add(SocketDaemon::start_with(&home, &profiles)?.startup_time);
        again.add(SocketDaemon::start_with(&home, &profiles)?.startup_time);
    }
    let home = BenchHome::new(&place.program, "http://127.0.0.1:9")?;
    let daemon = SocketDaemon::start_with(&home, &profiles)?;
    sleep(SETTLE_DELAY);
    let memory = process_usage::private_megabytes(daemon.pid())?;

    report::print_table(
        "start: our own program",
        &[
            ("`true`, to its end", &floor),
            ("`angelia --version`, to its end", &version),
            ("`angelia serve`, until /healthz answers, new home", &ready),
            ("`angelia serve`, until /healthz answers, used home", &again),
        ],
    );
    report::print_line(&format!("idle daemon without agents: {memory:.1} MB of its own"));
    report.at_most("`angelia --version`, p50", ms(version.median()), 10.0, "ms");
    report.at_most("`angelia serve` ready, p50, new home", ms(ready.median()), 50.0, "ms");
    report.at_most("`angelia serve` ready, p50, used home", ms(again.median()), 50.0, "ms");
    report.at_most("idle daemon", memory, 10.0, "MB");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "starting it is what is measured")]
fn run(place: &BenchHome, program: &str, arguments: &[&str]) -> Result<Duration> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(place.bare_environment()).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    let took = begun.elapsed();
    ensure!(status.success(), "{program} failed: {status}");
    Ok(took)
}
