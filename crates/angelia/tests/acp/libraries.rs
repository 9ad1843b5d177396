//! The unmodified official client libraries drive `angelia acp` on the real Claude Code with a
//! scripted model. Their scripts are in `tests/clients/acp`.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use angelia_testkit::{model_server::ModelServer, programs::workspace_root, real::RealClaude};

use crate::{
    agent_processes,
    machine::{ANGELIA, Machine, RunningCommand, until},
};

/// A red square of eight pixels.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGM4oaGBFTEMLQkA\
    gl1GAWqNFmsAAAAASUVORK5CYII=";

/// The time limit of a whole script, which starts fifteen agents.
const SCRIPT_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) struct LibraryFixture {
    pub(crate) machine: Machine,
    pub(crate) server: ModelServer,
}

impl LibraryFixture {
    pub(crate) fn new(claude: &RealClaude) -> Self {
        let server = ModelServer::start().unwrap();
        let machine = Machine::with_shell();
        machine.configure(&format!(
            "profiles:\n  default:\n    executor: claude\n{}",
            claude.config_lines(&machine.place, &server.base_url())
        ));
        Self { machine, server }
    }

    /// Runs a script scenario by scenario, and asserts that it succeeds.
    #[track_caller]
    fn run(&self, mut command: Command) {
        command.env("ANGELIA", ANGELIA).env("ANGELIA_PNG", PNG).env("PYTHONDONTWRITEBYTECODE", "1");
        let ran = RunningCommand::spawn(command, Stdio::null()).wait_within(SCRIPT_TIMEOUT);
        assert!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
        let asked = self.server.model_requests();
        let bodies = asked.iter().map(|request| String::from_utf8_lossy(&request.body));
        let bodies: Vec<_> = bodies.collect();
        let saw = |parts: &[&str]| {
            (bodies.iter()).any(|body| parts.iter().all(|part| body.contains(part)))
        };
        assert!(saw(&[&PNG[..40]]), "the model did not see the picture");
        assert!(saw(&["the notes"]), "the model did not see the resource");
        let (before, on, beside) = ("before the fork", "on the fork", "beside the fork");
        assert!(saw(&[before, on]), "a fork does not know what was said");
        assert!(saw(&[before, beside]), "the original forgot what was said");
        assert!(!saw(&[on, beside]), "a fork and its original are mixed up");
        until("no agent is left", || agent_processes::agent_pids(&self.machine).is_empty());
    }

    fn typescript(&self) {
        let packages = workspace_root().join("target/npm/acp/node_modules");
        assert!(packages.exists(), "run `cargo xtask setup` first");
        // Node.js looks for packages beside the script, so the script is copied there.
        let folder = self.machine.place.root().join("javascript");
        fs::create_dir(&folder).unwrap();
        let script = folder.join("client.mjs");
        fs::copy(scripts().join("client.mjs"), &script).unwrap();
        std::os::unix::fs::symlink(packages, folder.join("node_modules")).unwrap();
        let mut command = self.machine.program("node");
        command.arg(script);
        self.run(command);
    }

    fn python(&self) {
        let python = workspace_root().join("target/python/acp/bin/python");
        assert!(python.exists(), "run `cargo xtask setup` first");
        let mut command = self.machine.program(python);
        command.arg(scripts().join("client.py"));
        self.run(command);
    }
}

fn scripts() -> PathBuf {
    workspace_root().join("tests/clients/acp")
}

mod real_newest {
    use serde_json::json;

    use super::*;
    use crate::editor::Editor;

    /// The agent starts the MCP servers that the editor passes, and only in that session.
    #[test]
    fn servers_of_the_editor_are_the_agents() {
        let bench = LibraryFixture::new(&RealClaude::newest().unwrap());
        let marker = bench.machine.work().join("started");
        let server = json!({"name": "mine", "command": "/bin/sh", "env": [],
            "args": ["-c", format!("echo started >> '{}'", marker.display())]});
        let mut editor = Editor::open(&bench.machine);
        let new = json!({"cwd": bench.machine.work(), "mcpServers": [server]});
        let new = editor.call("session/new", new).unwrap();
        editor.prompt(new["sessionId"].as_str().unwrap(), "ECHO:hello").unwrap();
        assert!(marker.exists());
        fs::remove_file(&marker).unwrap();
        let without = editor.session(&bench.machine);
        editor.prompt(&without, "ECHO:hello").unwrap();
        assert!(!marker.exists());
    }

    /// A missing login is reported as the protocol's error.
    #[test]
    fn without_a_login_a_prompt_asks_for_one() {
        let bench = LibraryFixture::new(&RealClaude::newest().unwrap());
        let config = bench.machine.home().join("config.yaml");
        let text = fs::read_to_string(&config).unwrap();
        let lines = text.lines().filter(|line| !line.contains("ANTHROPIC_API_KEY"));
        let without: Vec<_> = lines.collect();
        fs::write(&config, without.join("\n")).unwrap();
        let mut editor = Editor::open(&bench.machine);
        let session = editor.session(&bench.machine);
        let error = editor.prompt(&session, "ECHO:hello").unwrap_err();
        assert_eq!(error["code"], -32000, "{error}");
        let login = json!({"methodId": "agent-login"});
        let error = editor.call("authenticate", login).unwrap_err();
        assert_eq!(error["code"], -32000, "{error}");
    }

    #[test]
    fn typescript() {
        LibraryFixture::new(&RealClaude::newest().unwrap()).typescript();
    }

    #[test]
    fn python() {
        LibraryFixture::new(&RealClaude::newest().unwrap()).python();
    }
}

mod real_oldest {
    use super::*;

    #[test]
    fn typescript() {
        LibraryFixture::new(&RealClaude::oldest().unwrap()).typescript();
    }

    #[test]
    fn python() {
        LibraryFixture::new(&RealClaude::oldest().unwrap()).python();
    }
}
