//! `angelia serve` as people run it, in a private home.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use angelia_testkit::measure::{Running, ours};
use anyhow::{Result, bail};
use serde_json::json;

use crate::{Place, http::Client};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_angelia");

const READY: Duration = Duration::from_secs(20);

/// A running daemon; stopped when dropped.
pub(crate) struct Daemon {
    running: Running,
    socket: PathBuf,
    /// From the start of the program to its first answer.
    pub(crate) ready: Duration,
}

impl Daemon {
    /// Serves one profile: the agent program of the place, with `warm` processes kept waiting.
    pub(crate) fn start(place: &Place, warm: u32) -> Result<Self> {
        let variables: serde_json::Map<_, _> = place
            .variables()
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect();
        let profile = json!({"executor": "claude", "binary": place.program, "cwd": place.work(),
            "trust": "off", "env": variables, "warm": warm});
        Self::start_with(place, &json!({"default": profile}))
    }

    pub(crate) fn start_with(place: &Place, profiles: &serde_json::Value) -> Result<Self> {
        let home = place.angelia_home("daemon");
        fs::create_dir_all(&home)?;
        let config = json!({"listen": "127.0.0.1:0", "profiles": profiles});
        // JSON is YAML.
        fs::write(home.join("config.yaml"), config.to_string())?;
        let log = fs::File::create(home.join("serve.log"))?;
        let socket = home.join("run/angelia.sock");
        let mut command = ours(PROGRAM);
        command
            .arg("serve")
            .env_clear()
            .envs(place.bare_environment())
            .env("ANGELIA_HOME", &home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let begun = Instant::now();
        let mut this = Self {
            running: Running::start(&mut command)?,
            socket,
            ready: Duration::ZERO,
        };
        while !answers(&this.socket) {
            if begun.elapsed() > READY || this.running.has_ended()? {
                bail!(
                    "the daemon did not start: {}",
                    fs::read_to_string(home.join("serve.log"))?
                );
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        this.ready = begun.elapsed();
        Ok(this)
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Client::connect(&self.socket)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }
}

fn answers(socket: &Path) -> bool {
    Client::connect(socket)
        .and_then(|mut client| client.is_healthy())
        .unwrap_or(false)
}
