//! Codex as a client of Angelia, which drives Claude Code.

use std::{
    fs,
    process::{Command, Stdio},
};

use angelia_testkit::{isolated_home::IsolatedHome, programs::workspace_root};
use base64::Engine as _;
use serde_json::Value;

use crate::{
    daemon_fixture::{DaemonFixture, PNG, SCRIPT_TIMEOUT, on_both},
    machine::{RunningCommand, until},
};

on_both! {
    as_client super::works;
    image_and_schema super::shows_and_demands;
    error_and_cancel super::fails_and_leaves;
}

/// A Codex with its own home that uses Angelia as its model provider.
struct CodexClient {
    place: IsolatedHome,
}

impl CodexClient {
    fn new(bench: &DaemonFixture) -> Self {
        let place = IsolatedHome::new().unwrap();
        let home = place.home().join("codex");
        fs::create_dir(&home).unwrap();
        let url = bench.url();
        let settings = format!(
            "model = \"claude/sonnet\"
model_provider = \"angelia\"
approval_policy = \"never\"
sandbox_mode = \"danger-full-access\"
[model_providers.angelia]
name = \"Angelia\"
base_url = \"{url}/v1\"
env_key = \"ANGELIA_KEY\"
wire_api = \"responses\"
request_max_retries = 0
stream_max_retries = 0
"
        );
        fs::write(home.join("config.toml"), settings).unwrap();
        Self { place }
    }

    fn command(&self, bench: &DaemonFixture, arguments: &[&str]) -> Command {
        let mut command = bench.machine.program(binary());
        command
            .env_clear()
            .envs(self.place.environment())
            .env("CODEX_HOME", self.place.home().join("codex"))
            .env("ANGELIA_KEY", bench.key())
            .current_dir(self.place.work_dir())
            .args(["exec", "--skip-git-repo-check", "--json"])
            .args(arguments);
        command
    }

    /// Runs one command and returns its events.
    #[track_caller]
    fn run_expecting(&self, bench: &DaemonFixture, arguments: &[&str], wanted: &str) -> Vec<Value> {
        let command = self.command(bench, arguments);
        let ran = RunningCommand::spawn(command, Stdio::null()).wait_within(SCRIPT_TIMEOUT);
        let events = ran.stdout.lines();
        let events: Vec<Value> =
            events.filter_map(|line| serde_json::from_str(line).ok()).collect();
        let last = events.last().map(|event| &event["type"]);
        assert_eq!(last, Some(&Value::from(wanted)), "{ran:#?}");
        events
    }

    /// Runs one command and asserts that it succeeds.
    #[track_caller]
    fn run_prompt(&self, bench: &DaemonFixture, arguments: &[&str]) -> Vec<Value> {
        self.run_expecting(bench, arguments, "turn.completed")
    }
}

/// Returns the agent's last message.
fn final_answer(events: &[Value]) -> &str {
    let said = events.iter().rfind(|event| event["item"]["type"] == "agent_message");
    said.and_then(|event| event["item"]["text"].as_str()).unwrap()
}

fn works(bench: DaemonFixture) {
    let client = CodexClient::new(&bench);
    let first = client.run_prompt(&bench, &["ECHO:hello from the inside"]);
    assert_eq!(final_answer(&first), "hello from the inside");
    let thread = first[0]["thread_id"].as_str().unwrap();

    // The conversation continues, with one model request for each of the client's requests.
    let second = client.run_prompt(&bench, &["resume", thread, "ECHO:and again"]);
    assert_eq!(final_answer(&second), "and again");
    assert_eq!(bench.model_requests().len(), 2);

    // The client runs its own tools, and the model behind Angelia calls them.
    let call = r#"TOOL:{"name":"mcp__client__exec_command","input":{"cmd":"echo $((40+2)) > made"}}:END ECHO:done"#;
    assert_eq!(final_answer(&client.run_prompt(&bench, &[call])), "done");
    let made = fs::read_to_string(client.place.work_dir().join("made")).unwrap();
    assert_eq!(made.trim(), "42");
    bench.end();
}

fn shows_and_demands(bench: DaemonFixture) {
    let client = CodexClient::new(&bench);
    let work = client.place.work_dir();
    let png = base64::prelude::BASE64_STANDARD.decode(PNG).unwrap();
    fs::write(work.join("red.png"), png).unwrap();
    let shown = client.run_prompt(&bench, &["-i", "red.png", "--", "ECHO:red"]);
    assert_eq!(final_answer(&shown), "red");
    bench.model_saw_the_picture();

    let schema = r#"{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}"#;
    fs::write(work.join("schema.json"), schema).unwrap();
    let prompt = r#"TOOL:{"name":"StructuredOutput","input":{"age":36}}:END ECHO:done"#;
    let formed = client.run_prompt(&bench, &["--output-schema", "schema.json", prompt]);
    let formed: Value = serde_json::from_str(final_answer(&formed)).unwrap();
    assert_eq!(formed, serde_json::json!({"age": 36}));
    bench.end();
}

fn fails_and_leaves(bench: DaemonFixture) {
    let client = CodexClient::new(&bench);
    let failed = client.run_expecting(&bench, &["STATUS:400 ECHO:no way"], "turn.failed");
    let message = failed.last().unwrap()["error"]["message"].as_str();
    assert!(message.unwrap().contains("no way"), "{failed:#?}");
    // The client did not retry: that could have done the work twice.
    assert_eq!(bench.machine.list("turns").len(), 1);

    let asked = bench.model_requests().len();
    let command = client.command(&bench, &["WORDS:2000:20"]);
    let running = RunningCommand::spawn(command, Stdio::null());
    until("the model answers", || bench.model_requests().len() > asked);
    drop(running);
    bench.model_was_left_alone();
    bench.end();
}

/// Returns the program's path inside the package for this platform.
pub(crate) fn binary() -> std::path::PathBuf {
    let packages = workspace_root().join("target/npm/codex/node_modules");
    let packages = fs::read_dir(packages).into_iter().flatten().flatten();
    let vendored = packages.flat_map(|package| fs::read_dir(package.path().join("vendor")));
    let mut binaries = vendored.flatten().flatten().map(|folder| folder.path().join("bin/codex"));
    match binaries.find(|path| path.is_file()) {
        Some(path) => path,
        None => panic!("Codex is not installed; run `cargo xtask setup`"),
    }
}
