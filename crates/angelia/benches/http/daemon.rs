//! Runs `angelia serve` as users do, in a private home and on a free port.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use angelia_testkit::benchmark::{BenchHome, MeasuredProcess};
use anyhow::{Result, bail};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    client::ApiClient,
    shares::{GREEDY_KEY, POLITE_KEY},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_angelia");

const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The name of the profile that every benchmark uses.
pub(crate) const PROFILE: &str = "bench";

/// A running daemon; stopped when dropped.
pub(crate) struct ServeDaemon {
    running: MeasuredProcess,
    address: SocketAddr,
    token: String,
}

impl ServeDaemon {
    /// Starts a daemon with one profile, which runs the agent program of this home.
    pub(crate) fn start(place: &BenchHome) -> Result<Self> {
        let keys = [("polite", POLITE_KEY), ("greedy", GREEDY_KEY)].map(|(name, key)| {
            let sha256 = hex::encode(Sha256::digest(key));
            json!({"name": name, "sha256": sha256, "agent_mode": true})
        });
        let config = json!({
            "listen": "127.0.0.1:0",
            "profiles": {PROFILE: place.profile(0)},
            "http": {"agent_mode": true, "keys": keys},
            // The load of the benchmarks is one caller's.
            "limits": {"connections_per_caller": 256},
            "sessions": {"max_live": 128},
        });
        let mut command = place.configured_command(PROGRAM, "daemon", &config)?;
        let home = place.angelia_home("daemon");
        let log = fs::File::create(home.join("serve.log"))?;
        command.arg("serve").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut this = Self {
            running: MeasuredProcess::start(&mut command)?,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            token: String::new(),
        };
        let begun = Instant::now();
        while !this.is_ready(&home) {
            if begun.elapsed() > READY_TIMEOUT || this.running.has_ended()? {
                bail!("the daemon did not start: {}", fs::read_to_string(home.join("serve.log"))?);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(this)
    }

    fn is_ready(&mut self, home: &Path) -> bool {
        let read = |name: &str| fs::read_to_string(home.join(name)).ok();
        let (Some(address), Some(token)) = (read("run/http.addr"), read("token")) else {
            return false;
        };
        let Ok(address) = address.trim().parse() else {
            return false;
        };
        (self.address, self.token) = (address, token.trim().to_owned());
        let asked = self.client().and_then(|mut client| client.request("GET", "/healthz", ""));
        asked.is_ok_and(|status| status == 200)
    }

    pub(crate) fn client(&self) -> Result<ApiClient> {
        ApiClient::connect(self.address, &self.token)
    }

    pub(crate) fn client_of_key(&self, key: &str) -> Result<ApiClient> {
        ApiClient::connect(self.address, key)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }
}
