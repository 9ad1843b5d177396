//! Runs `angelia serve` as users do, in a private home.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use angelia_testkit::benchmark::MeasuredProcess;
use anyhow::{Result, bail};
use serde_json::json;

use crate::{BenchHome, http::SocketClient};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_angelia");

const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// A running daemon; stopped when dropped.
pub(crate) struct SocketDaemon {
    running: MeasuredProcess,
    socket: PathBuf,
    /// The time from the start of the program to its first answer.
    pub(crate) startup_time: Duration,
}

impl SocketDaemon {
    /// Starts a daemon with one profile: the agent program of this home, with `warm` pooled
    /// processes.
    pub(crate) fn start(place: &BenchHome, warm: u32) -> Result<Self> {
        Self::start_with(place, &json!({"default": place.profile(warm)}))
    }

    pub(crate) fn start_with(place: &BenchHome, profiles: &serde_json::Value) -> Result<Self> {
        let config = json!({"listen": "127.0.0.1:0", "profiles": profiles});
        Self::start_configured(place, &config)
    }

    pub(crate) fn start_configured(place: &BenchHome, config: &serde_json::Value) -> Result<Self> {
        let mut command = place.configured_command(PROGRAM, "daemon", config)?;
        let home = place.angelia_home("daemon");
        let log = fs::File::create(home.join("serve.log"))?;
        let socket = home.join("run/angelia.sock");
        command.arg("serve").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let begun = Instant::now();
        let mut this = Self {
            running: MeasuredProcess::start(&mut command)?,
            socket,
            startup_time: Duration::ZERO,
        };
        while !is_ready(&this.socket) {
            if begun.elapsed() > READY_TIMEOUT || this.running.has_ended()? {
                bail!("the daemon did not start: {}", fs::read_to_string(home.join("serve.log"))?);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        this.startup_time = begun.elapsed();
        Ok(this)
    }

    pub(crate) fn client(&self) -> Result<SocketClient> {
        SocketClient::connect(&self.socket)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }
}

fn is_ready(socket: &Path) -> bool {
    SocketClient::connect(socket).and_then(|mut client| client.is_healthy()).unwrap_or(false)
}
