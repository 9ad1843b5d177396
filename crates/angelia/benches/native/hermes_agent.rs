//! hermes-agent as an ACP agent on the scripted model: one process and one session for many turns.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use angelia_testkit::{isolated_home::IsolatedHome, model_server::ModelServer, programs};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::cache::WINDOW;

pub(crate) struct HermesAgent {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Value,
    last_id: u64,
    /// Removed with the agent.
    _home: IsolatedHome,
}

impl HermesAgent {
    /// Starts it and opens a session; `None` if it is not installed.
    #[expect(clippy::disallowed_methods, reason = "what is compared is started here")]
    pub(crate) fn start(server: &ModelServer) -> Result<Option<Self>> {
        let programs = programs::workspace_root().join("target/bench-python/hermes-agent/bin");
        let program = programs.join("hermes-acp");
        if !program.is_file() {
            return Ok(None);
        }
        let home = IsolatedHome::new()?;
        let folder = home.root().join("hermes");
        fs::create_dir_all(&folder)?;
        let config = json!({"model": {"default": "m", "provider": "custom", "api_key": "dummy",
            "base_url": server.openai_base_url(), "context_length": WINDOW}});
        // JSON is valid YAML.
        fs::write(folder.join("config.yaml"), config.to_string())?;
        let mut process = Command::new(&program)
            .env_clear()
            .envs(home.environment())
            .env("HERMES_HOME", &folder)
            .env("OPENAI_API_KEY", "dummy")
            .env("OPENAI_BASE_URL", server.openai_base_url())
            .current_dir(home.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = process.stdin.take().context("no stdin")?;
        let output = BufReader::new(process.stdout.take().context("no stdout")?);
        let cwd = home.root().to_owned();
        let mut agent =
            Self { process, input, output, session: Value::Null, last_id: 0, _home: home };
        agent.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
        let opened = agent.call("session/new", &json!({"cwd": cwd, "mcpServers": []}))?;
        agent.session = opened["sessionId"].clone();
        Ok(Some(agent))
    }

    /// Runs one turn to its end.
    pub(crate) fn prompt(&mut self, text: &str) -> Result<()> {
        let prompt = json!([{"type": "text", "text": text}]);
        let ended =
            self.call("session/prompt", &json!({"sessionId": self.session, "prompt": prompt}))?;
        ensure!(ended["stopReason"] == "end_turn", "the turn ended otherwise: {ended}");
        Ok(())
    }

    /// Sends a request and returns its result. Requests of the agent are refused.
    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "hermes-agent has ended");
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            match (message.get("method"), message.get("id")) {
                (Some(_), Some(asked)) => {
                    let error = json!({"code": -32601, "message": "not offered"});
                    self.send(&json!({"jsonrpc": "2.0", "id": asked, "error": error}))?;
                }
                (None, Some(answered)) if *answered == id => {
                    ensure!(message.get("error").is_none(), "{method}: {message}");
                    return Ok(message["result"].clone());
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        writeln!(self.input, "{message}")?;
        Ok(self.input.flush()?)
    }
}

impl Drop for HermesAgent {
    fn drop(&mut self) {
        // The agent may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
