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
    Place,
    daemon::{Daemon, PROGRAM},
    processor,
    report::{self, Report, Series, ms},
};

const STARTS: u32 = 50;
const SERVES: u32 = 10;

/// By this time after the start, the daemon has released the memory it needed only to start.
const IDLE: Duration = Duration::from_secs(2);

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let place = Place::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    let mut floor = Series::default();
    let mut version = Series::default();
    for _ in 0..STARTS {
        floor.add(run(&place, "true", &[])?);
        version.add(run(&place, PROGRAM, &["--version"])?);
    }
    let mut ready = Series::default();
    let mut again = Series::default();
    let profiles = json!({"default": {"executor": "claude", "warm": 0}});
    for _ in 0..SERVES {
        let home = Place::new(&place.program, "http://127.0.0.1:9")?;
        ready.add(Daemon::start_with(&home, &profiles)?.ready);
        again.add(Daemon::start_with(&home, &profiles)?.ready);
    }
    let home = Place::new(&place.program, "http://127.0.0.1:9")?;
    let daemon = Daemon::start_with(&home, &profiles)?;
    sleep(IDLE);
    let memory = processor::own_megabytes(daemon.pid())?;

    report::table(
        "start: our own program",
        &[
            ("`true`, to its end", &floor),
            ("`angelia --version`, to its end", &version),
            ("`angelia serve`, until /healthz answers, new home", &ready),
            ("`angelia serve`, until /healthz answers, used home", &again),
        ],
    );
    report::line(&format!("idle daemon without agents: {memory:.1} MB of its own"));
    report.at_most("`angelia --version`, p50", ms(version.median()), 10.0, "ms");
    report.at_most("`angelia serve` ready, p50, new home", ms(ready.median()), 50.0, "ms");
    report.at_most("`angelia serve` ready, p50, used home", ms(again.median()), 50.0, "ms");
    report.at_most("idle daemon", memory, 10.0, "MB");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "starting it is what is measured")]
fn run(place: &Place, program: &str, arguments: &[&str]) -> Result<Duration> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(place.bare_environment()).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    let took = begun.elapsed();
    ensure!(status.success(), "{program} failed: {status}");
    Ok(took)
}
