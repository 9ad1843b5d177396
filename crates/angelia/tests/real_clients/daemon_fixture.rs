//! The test setup: a machine with the real Claude Code, a model whose answers the prompts script, a
//! daemon in front of them, and a client's script that talks to the daemon.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use angelia_testkit::{model_server::ModelServer, programs::workspace_root, real::RealClaude};

use crate::{
    agent_processes,
    machine::{Machine, ProgramOutput, RunningCommand, RunningDaemon, until},
};

/// A red square of eight pixels.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGM4oaGBFTEMLQkA\
    gl1GAWqNFmsAAAAASUVORK5CYII=";

/// The time limit of a whole script; some scripts start ten agents.
pub(crate) const SCRIPT_TIMEOUT: Duration = Duration::from_mins(6);

/// Additions to the standard configuration of the setup.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtraConfig<'a> {
    /// Lines of `executors.claude`.
    pub(crate) claude: &'a str,
    /// Lines of `http`.
    pub(crate) http: &'a str,
    /// Other blocks of the configuration.
    pub(crate) blocks: &'a str,
    /// Variables of the daemon.
    pub(crate) variables: &'a [(&'a str, &'a str)],
}

pub(crate) struct DaemonFixture {
    pub(crate) machine: Machine,
    pub(crate) server: ModelServer,
    serving: RunningDaemon,
}

impl DaemonFixture {
    pub(crate) fn new(claude: &RealClaude) -> Self {
        Self::with(claude, ExtraConfig::default())
    }

    pub(crate) fn with(claude: &RealClaude, more: ExtraConfig<'_>) -> Self {
        let server = ModelServer::start().unwrap();
        let mut machine = Machine::with_shell();
        for (name, value) in more.variables {
            machine.set(name, *value);
        }
        machine.configure(&format!(
            "executors:
  claude:
{}{}http:
  disconnect_grace: 1s
{}{}",
            claude.config_lines(&machine.place, &server.base_url()),
            more.claude,
            more.http,
            more.blocks
        ));
        let serving = machine.serve();
        // The daemon first asks its agents for their version and login; these processes end soon.
        until("the daemon knows its agents", || serving.running.stderr().contains("  next    "));
        Self { machine, server, serving }
    }

    /// Returns the address for clients.
    pub(crate) fn url(&self) -> String {
        let address = fs::read_to_string(self.machine.home().join("run/http.addr")).unwrap();
        format!("http://{}", address.trim())
    }

    /// Returns the owner's token, which clients use as an API key.
    pub(crate) fn key(&self) -> String {
        let token = fs::read_to_string(self.machine.home().join("token")).unwrap();
        token.trim().to_owned()
    }

    /// Runs a script of `tests/clients`, whole or only the named scenarios, and asserts that it
    /// succeeds.
    #[track_caller]
    pub(crate) fn script(&self, script: &str, scenarios: &[&str]) -> ProgramOutput {
        let (program, path) = if Path::new(script).extension().is_some_and(|it| it == "py") {
            let python = workspace_root().join("target/python/clients/bin/python");
            assert!(python.exists(), "run `cargo xtask setup` first");
            (python, workspace_root().join("tests/clients").join(script))
        } else {
            (PathBuf::from("node"), self.javascript().join(script))
        };
        let mut command = self.machine.program(program);
        command
            .arg(path)
            .args(scenarios)
            .env("ANGELIA_URL", self.url())
            .env("ANGELIA_KEY", self.key())
            .env("ANGELIA_MODEL", "claude/sonnet")
            .env("ANGELIA_PNG", PNG)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let ran = RunningCommand::spawn(command, Stdio::null()).wait_within(SCRIPT_TIMEOUT);
        assert!(
            ran.status.success(),
            "{}{}\n--- the daemon says:\n{}",
            ran.stdout,
            ran.stderr,
            self.serving.running.stderr()
        );
        ran
    }

    /// Runs a whole script, which sends an image and at last disconnects in the middle of an
    /// answer.
    #[track_caller]
    pub(crate) fn run_whole_script(self, script: &str) {
        self.script(script, &[]);
        self.model_saw_the_picture();
        self.model_was_left_alone();
        self.end();
    }

    /// Copies the scripts beside their packages, where Node.js looks for them.
    fn javascript(&self) -> PathBuf {
        let packages = workspace_root().join("target/npm/clients/node_modules");
        assert!(packages.exists(), "run `cargo xtask setup` first");
        let folder = self.machine.place.root().join("javascript");
        if folder.exists() {
            return folder;
        }
        fs::create_dir(&folder).unwrap();
        for entry in fs::read_dir(workspace_root().join("tests/clients")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "mjs") {
                fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
            }
        }
        std::os::unix::fs::symlink(packages, folder.join("node_modules")).unwrap();
        folder
    }

    /// Returns the requests that the model received, as text.
    pub(crate) fn model_requests(&self) -> Vec<String> {
        let requests = self.server.model_requests();
        let bodies = requests.iter();
        bodies.map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn model_saw_the_picture(&self) {
        let data = &PNG[..40];
        let seen = self.model_requests().iter().any(|body| body.contains(data));
        assert!(seen, "the picture did not reach the model");
    }

    /// Asserts that a client that disconnected has stopped its turn.
    #[track_caller]
    pub(crate) fn model_was_left_alone(&self) {
        until("the answer is broken off", || self.server.abandoned_count() > 0);
    }

    /// Returns the living agents.
    pub(crate) fn agents(&self) -> usize {
        let marked = agent_processes::agent_pids(&self.machine);
        marked.len()
    }

    /// Stops the daemon, and asserts that no process is left.
    #[track_caller]
    pub(crate) fn end(self) {
        self.serving.stop().assert_code(0);
        until("no agent is left", || agent_processes::agent_pids(&self.machine).is_empty());
    }
}

/// Defines a test on the oldest and one on the newest Claude Code.
macro_rules! on_both {
    ($($name:ident $run:expr;)*) => { $(
        mod $name {
            #[test]
            fn real_oldest() {
                let run: fn(crate::daemon_fixture::DaemonFixture) = $run;
                let claude = angelia_testkit::real::RealClaude::oldest().unwrap();
                run(crate::daemon_fixture::DaemonFixture::new(&claude));
            }

            #[test]
            fn real_newest() {
                let run: fn(crate::daemon_fixture::DaemonFixture) = $run;
                let claude = angelia_testkit::real::RealClaude::newest().unwrap();
                run(crate::daemon_fixture::DaemonFixture::new(&claude));
            }
        }
    )* };
}
pub(crate) use on_both;
