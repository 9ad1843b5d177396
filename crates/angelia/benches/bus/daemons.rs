//! Starts the two daemons that are compared: Angelia's bus and hermes-bus.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use angelia_testkit::{
    benchmark::{MeasuredProcess, angelia_command, process_usage},
    isolated_home::IsolatedHome,
    programs,
};
use anyhow::{Context as _, Result, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BusImplementation {
    Angelia,
    HermesBus,
}

impl BusImplementation {
    pub(crate) const BOTH: [Self; 2] = [Self::HermesBus, Self::Angelia];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Angelia => "angelia",
            Self::HermesBus => "hermes-bus",
        }
    }
}

/// A running daemon; stopped when dropped.
pub(crate) struct BenchBusDaemon {
    running: MeasuredProcess,
    place: IsolatedHome,
    pub(crate) implementation: BusImplementation,
}

impl BenchBusDaemon {
    #[expect(clippy::disallowed_methods, reason = "starting the programs is what is measured")]
    pub(crate) fn start(whose: BusImplementation) -> Result<Self> {
        let place = IsolatedHome::new()?;
        // hermes-bus does not create this folder itself.
        fs::create_dir(place.root().join("hermes"))?;
        let mut command = match whose {
            BusImplementation::Angelia => {
                let mut command = angelia_command(env!("CARGO_BIN_EXE_angelia"));
                command.args(["bus", "run"]);
                command
            }
            BusImplementation::HermesBus => {
                let server = "target/python/hermes/bin/hermes-bus-server";
                let server = programs::workspace_root().join(server);
                if !server.exists() {
                    bail!("{} is missing; run `cargo xtask setup`", server.display());
                }
                Command::new(server)
            }
        };
        command
            .env_clear()
            .envs(place.environment())
            .env("HERMES_BUS_ROOT", place.root().join("hermes"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let daemon =
            Self { running: MeasuredProcess::start(&mut command)?, place, implementation: whose };
        let deadline = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(daemon.socket()).is_err() {
            if Instant::now() > deadline {
                bail!("{} does not start", whose.name());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.root().join("hermes/hermes-bus.sock")
    }

    /// Sends one message with `angelia notify`, as a user does.
    #[expect(clippy::disallowed_methods, reason = "starting the program is what is measured")]
    pub(crate) fn notify(&self, to: &str, text: &str) -> Result<()> {
        let sent = Command::new(env!("CARGO_BIN_EXE_angelia"))
            .args(["notify", "--to", to, text])
            .env_clear()
            .envs(self.place.environment())
            .env("HERMES_BUS_ROOT", self.place.root().join("hermes"))
            .stdin(Stdio::null())
            .output()?;
        if !sent.status.success() {
            bail!("{}", String::from_utf8_lossy(&sent.stderr));
        }
        Ok(())
    }

    /// Returns the processor time used so far.
    pub(crate) fn processor(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.running.pid()))?;
        let rest = stat.rsplit(')').next().context("an odd stat")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Returns the resident memory in megabytes.
    pub(crate) fn memory(&self) -> Result<f64> {
        process_usage::resident_megabytes(self.running.pid())
    }
}
