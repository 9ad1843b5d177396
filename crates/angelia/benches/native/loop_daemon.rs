//! `angelia serve` with the scripted model as its provider.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use angelia_executors::native::provider::Api;
use angelia_testkit::{benchmark::BenchHome, model_server::ModelServer};
use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    Timing,
    daemon::{PROGRAM, SocketDaemon},
    http::SocketClient,
    peers::own_config,
};

const INTERRUPT_LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct LoopDaemon {
    pub(crate) client: SocketClient,
    /// Declared after its client, so that it is dropped after it.
    daemon: SocketDaemon,
    home: BenchHome,
}

impl LoopDaemon {
    /// Starts it; `sandbox` sets the limits of commands.
    pub(crate) fn start(server: &ModelServer, api: Api, sandbox: Option<&str>) -> Result<Self> {
        let home = BenchHome::new(Path::new(PROGRAM), &server.base_url())?;
        let mut config = own_config(server, api);
        let profile = &mut config["profiles"]["default"];
        profile["cwd"] = home.work_dir().to_string_lossy().into();
        if let Some(sandbox) = sandbox {
            profile["sandbox"] = sandbox.into();
        }
        let daemon = SocketDaemon::start_configured(&home, &config)?;
        Ok(Self { client: daemon.client()?, daemon, home })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    pub(crate) fn work_dir(&self) -> PathBuf {
        self.home.work_dir()
    }

    /// Interrupts a turn, and returns the time until it has ended.
    pub(crate) fn interrupt(&mut self, turn: &str) -> Result<Duration> {
        let begun = Instant::now();
        self.client.request("POST", &format!("/api/turns/{turn}/interrupt"), Some(&json!({})))?;
        let path = format!("/api/turns/{turn}");
        while self.client.request("GET", &path, None)?["status"] == "running" {
            ensure!(begun.elapsed() < INTERRUPT_LIMIT, "the turn does not end");
        }
        Ok(begun.elapsed())
    }

    /// Runs a turn in a session of its own.
    pub(crate) fn new_turn(&mut self, prompt: &str) -> Result<Timing> {
        let session = self.client.create_session()?;
        let timing = self.client.turn(&session, prompt)?;
        self.client.delete_session(&session)?;
        Ok(timing)
    }
}
