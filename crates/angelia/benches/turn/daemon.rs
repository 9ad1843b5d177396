//! `angelia serve` as people run it, in a private home.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{Place, http::Client};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_angelia");

const READY: Duration = Duration::from_secs(20);

/// A running daemon; stopped when dropped.
pub(crate) struct Daemon {
    child: Child,
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

    #[expect(clippy::disallowed_methods, reason = "the daemon is what is measured")]
    pub(crate) fn start_with(place: &Place, profiles: &serde_json::Value) -> Result<Self> {
        let home = place.angelia_home("daemon");
        fs::create_dir_all(&home)?;
        let config = json!({"listen": "127.0.0.1:0", "profiles": profiles});
        // JSON is YAML.
        fs::write(home.join("config.yaml"), config.to_string())?;
        let log = fs::File::create(home.join("serve.log"))?;
        let socket = home.join("run/angelia.sock");
        let mut command = Command::new(PROGRAM);
        command
            .arg("serve")
            .env_clear()
            .envs(place.bare_environment())
            .env("ANGELIA_HOME", &home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let begun = Instant::now();
        let child = command.spawn().context("cannot start the daemon")?;
        let mut this = Self {
            child,
            socket,
            ready: Duration::ZERO,
        };
        while !answers(&this.socket) {
            if begun.elapsed() > READY || this.child.try_wait()?.is_some() {
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
        self.child.id()
    }
}

fn answers(socket: &Path) -> bool {
    Client::connect(socket)
        .and_then(|mut client| client.is_healthy())
        .unwrap_or(false)
}

impl Drop for Daemon {
    /// As a person would stop it, so that it ends its agents.
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have gone already.
            let _gone = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + READY;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _gone = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
