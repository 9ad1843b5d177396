//! The test setup: an isolated home and environment with a bus, one for each test.

use std::{
    ffi::OsString,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use angelia_testkit::{bus_peer::BusPeer, isolated_home::IsolatedHome};
use serde_json::{Value, json};

const ANGELIA: &str = env!("CARGO_BIN_EXE_angelia");

pub(crate) struct BusMachine {
    place: IsolatedHome,
    /// A folder with links to the program under its other names.
    bin: PathBuf,
    uses_hermes: bool,
}

impl BusMachine {
    pub(crate) fn new() -> Self {
        let place = IsolatedHome::new().unwrap();
        let bin = place.root().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for name in ["hermes-busd", "hermes-bus-server"] {
            symlink(ANGELIA, bin.join(name)).unwrap();
        }
        Self { place, bin, uses_hermes: true }
    }

    /// Returns the machine of somebody who has never used Hermes.
    pub(crate) fn without_hermes() -> Self {
        Self { uses_hermes: false, ..Self::new() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.place.root()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root().join("hermes/hermes-bus.sock")
    }

    /// Returns the path of the bus's own socket.
    pub(crate) fn own_socket(&self) -> PathBuf {
        self.home().join("run/bus.sock")
    }

    pub(crate) fn user_home(&self) -> PathBuf {
        self.place.home()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.place.home().join(".angelia")
    }

    /// Returns a search path: our other names first, then the folder `beside`, then the system's.
    pub(crate) fn search_path(&self, beside: &Path) -> OsString {
        let mut path = OsString::from(&self.bin);
        path.push(":");
        path.push(beside.parent().unwrap_or(beside));
        path.push(":/usr/local/bin:/usr/bin:/bin");
        path
    }

    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        #[expect(clippy::disallowed_methods, reason = "starting the program is what is tested")]
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.place.environment())
            .env("PATH", self.search_path(Path::new("/usr/bin/env")))
            .current_dir(self.place.work_dir())
            .stdin(Stdio::null());
        if self.uses_hermes {
            let hermes = self.root().join("hermes");
            command.env("HERMES_BUS_ROOT", &hermes).env("HERMES_HOME", &hermes);
        }
        command
    }

    pub(crate) fn angelia(&self, arguments: &[&str]) -> Output {
        self.program(ANGELIA).args(arguments).output().unwrap()
    }

    /// Runs the program under one of its other names.
    pub(crate) fn named(&self, name: &str, arguments: &[&str]) -> Output {
        let program = self.bin.join(name);
        self.program(program).args(arguments).output().unwrap()
    }

    /// Starts the bus in the foreground, so that the test can kill it.
    pub(crate) fn start_daemon(&self) -> BusDaemon {
        let child =
            self.program(ANGELIA).args(["bus", "run"]).stderr(Stdio::null()).spawn().unwrap();
        BusDaemon(child)
    }

    /// Starts the bus in the background until the test ends.
    pub(crate) fn start_in_background(&self) -> BusStopGuard<'_> {
        let started = self.angelia(&["bus", "start"]);
        assert!(started.status.success(), "{started:?}");
        self.stop_at_end()
    }

    /// Stops a bus that a sender has started, when the test ends.
    pub(crate) fn stop_at_end(&self) -> BusStopGuard<'_> {
        BusStopGuard(self)
    }

    pub(crate) async fn register(&self, name: &str) -> BusPeer {
        let mut peer = BusPeer::connect_with_retry(&self.socket()).await;
        let reply = peer.request(json!({"type": "register", "endpoint": name, "ack": true})).await;
        assert_eq!(reply["type"], "registered", "{reply}");
        peer
    }

    pub(crate) fn status(&self) -> Value {
        let status = self.angelia(&["bus", "status", "--json"]);
        serde_json::from_slice(&status.stdout).unwrap()
    }
}

pub(crate) struct BusDaemon(pub(crate) Child);

impl BusDaemon {
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for BusDaemon {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Stops the bus when dropped, however the test ends.
pub(crate) struct BusStopGuard<'a>(&'a BusMachine);

impl Drop for BusStopGuard<'_> {
    fn drop(&mut self) {
        self.0.angelia(&["bus", "stop"]);
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
