//! A machine with a Codex: the real one with a scripted model, or a script that only answers the
//! first questions (version, login).

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
};

use angelia_testkit::{
    codex_home::{self, CodexLogin, KEY_VARIABLE},
    model_server::ModelServer,
    real::RealCodex,
};

use crate::{
    agent_processes,
    machine::{Machine, RunningCommand, RunningDaemon, until},
};

/// The beginning of every configuration here.
fn configuration(more: &str) -> String {
    format!("executors: {{codex: {{warm: 0, env: {{{KEY_VARIABLE}: dummy}}}}}}\n{more}")
}

/// Returns a machine that has only `codex` and a shell.
fn machine_with_codex(put: impl FnOnce(PathBuf)) -> Machine {
    let mut machine = Machine::with_shell();
    let bin = machine.place.root().join("bin");
    fs::create_dir(&bin).unwrap();
    put(bin.join("codex"));
    machine.set("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    machine
}

/// Installs a fake Codex that only reports its version and login.
pub(crate) fn machine_with_fake_codex(version: &str) -> Machine {
    machine_with_codex(|path| {
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in\n--version) echo codex-cli {version};;\n\
             login) echo Logged in using ChatGPT >&2;;\n*) exit 1;;\nesac\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    })
}

/// Codex's own configuration unless a test sets another one.
pub(crate) fn config(machine: &Machine) -> PathBuf {
    machine.place.home().join(".codex/config.toml")
}

/// The real Codex, and a model whose answers the prompts script.
pub(crate) struct CodexFixture {
    pub(crate) machine: Machine,
    pub(crate) server: ModelServer,
    pub(crate) codex: RealCodex,
}

impl CodexFixture {
    /// Creates the setup; `ours` is added to our configuration, `theirs` to Codex's.
    pub(crate) fn new(ours: &str, theirs: &str) -> Self {
        let codex = RealCodex::find().unwrap();
        let machine = machine_with_codex(|path| symlink(&codex.path, path).unwrap());
        let server = ModelServer::start().unwrap();
        let home = machine.place.home().join(".codex");
        codex_home::create(home, &server.base_url(), CodexLogin::Key, theirs).unwrap();
        machine.configure(&configuration(ours));
        Self { machine, server, codex }
    }

    pub(crate) fn config(&self) -> String {
        fs::read_to_string(config(&self.machine)).unwrap()
    }

    /// Returns a command for Codex itself, in the same home that we use.
    pub(crate) fn codex(&self, arguments: &[&str]) -> RunningCommand {
        let mut command = self.machine.program(&self.codex.path);
        command.args(arguments).env(KEY_VARIABLE, "dummy");
        RunningCommand::spawn(command, std::process::Stdio::null())
    }
}

/// The setup with a daemon in front of it.
pub(crate) struct DaemonFixture {
    pub(crate) lab: CodexFixture,
    serving: RunningDaemon,
}

impl DaemonFixture {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    pub(crate) fn with(theirs: &str) -> Self {
        let lab = CodexFixture::new("", theirs);
        let serving = lab.machine.serve();
        Self { lab, serving }
    }

    /// Returns the address for clients.
    pub(crate) fn url(&self) -> String {
        let address = fs::read_to_string(self.lab.machine.home().join("run/http.addr")).unwrap();
        format!("http://{}", address.trim())
    }

    /// Returns the owner's token, which clients use as an API key.
    pub(crate) fn key(&self) -> String {
        let token = fs::read_to_string(self.lab.machine.home().join("token")).unwrap();
        token.trim().to_owned()
    }

    /// Returns the requests that the model received, as text.
    pub(crate) fn model_requests(&self) -> Vec<String> {
        let requests = self.lab.server.model_requests();
        let bodies = requests.iter();
        bodies.map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect()
    }

    /// Stops the daemon, and asserts that no process is left.
    #[track_caller]
    pub(crate) fn end(self) {
        self.serving.stop().assert_code(0);
        until("no agent is left", || agent_processes::agent_pids(&self.lab.machine).is_empty());
    }
}
