//! The official MCP client, as a test uses it.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use angelia_testkit::programs::workspace_root;
use serde_json::{Value, json};

use crate::machine::{ANGELIA, Machine, RunningCommand};

/// The search path on which Node.js is found.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

const SCRIPT: &str = include_str!("client.mjs");

/// Returns a client step that calls a tool.
pub(crate) fn call(tool: &str, with: &Value) -> Value {
    json!({"call": tool, "with": with})
}

/// The result of a tool call.
#[derive(Debug)]
pub(crate) struct McpCallResult(Value);

impl McpCallResult {
    /// Returns the whole text of the result.
    pub(crate) fn text(&self) -> String {
        let content = self.0["result"]["content"].as_array();
        let texts = content.into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
        texts.join("\n")
    }

    #[track_caller]
    pub(crate) fn assert_success(&self) -> String {
        let failed = self.0["result"]["isError"].as_bool() == Some(true);
        assert!(!failed && self.0["threw"].is_null(), "{:#}", self.0);
        self.text()
    }

    /// Returns the result of a successful call as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.assert_success()).unwrap()
    }

    /// Asserts that the tool reported an error (not a protocol error) with this text.
    #[track_caller]
    pub(crate) fn assert_tool_error(&self, with: &str) -> String {
        assert_eq!(self.0["result"]["isError"], true, "{:#}", self.0);
        let text = self.text();
        assert!(text.contains(with), "no {with:?} in {text}");
        text
    }

    /// Returns the progress messages of the call.
    pub(crate) fn progress(&self) -> Vec<String> {
        let said = self.0["progress"].as_array().into_iter().flatten();
        said.filter_map(|one| one["message"].as_str().map(str::to_owned)).collect()
    }

    pub(crate) fn raw(&self) -> &Value {
        &self.0
    }
}

/// Returns the session that a delegated turn ran in.
#[track_caller]
pub(crate) fn session_in(text: &str) -> String {
    let (_, rest) = text.split_once("[session ").unwrap();
    rest.split_once(',').unwrap().0.to_owned()
}

/// Starts a client that runs `angelia mcp` with these arguments; killed on drop.
pub(crate) fn start(machine: &Machine, arguments: &[&str], steps: &[Value]) -> RunningCommand {
    let mut command = command(machine);
    let (script, order) = write_steps(machine, arguments, steps);
    command.arg(script).arg(order);
    RunningCommand::spawn(command, Stdio::null())
}

/// Starts a client from a marked shell that removes the mark before it starts anything.
pub(crate) fn start_unmarked(machine: &Machine, mark: &str, steps: &[Value]) -> RunningCommand {
    let (script, order) = write_steps(machine, &[], steps);
    let mut command = machine.program("/bin/sh");
    command
        .env("PATH", SEARCH_PATH)
        .env("ANGELIA_AGENT", mark)
        .args(["-c", "env -u ANGELIA_AGENT node \"$0\" \"$1\"; exit $?"])
        .args([script, order]);
    RunningCommand::spawn(command, Stdio::null())
}

/// Returns the client script and a file with its steps.
fn write_steps(machine: &Machine, arguments: &[&str], steps: &[Value]) -> (PathBuf, PathBuf) {
    static ORDERS: AtomicU32 = AtomicU32::new(0);
    let arguments = [&["mcp"], arguments].concat();
    let order = json!({"program": ANGELIA, "args": arguments, "steps": steps});
    let script = script(machine);
    let number = ORDERS.fetch_add(1, Ordering::Relaxed);
    let path = script.with_file_name(format!("order-{number}.json"));
    fs::write(&path, order.to_string()).unwrap();
    (script, path)
}

/// Runs a client to its end and returns one result per step.
#[track_caller]
pub(crate) fn run(machine: &Machine, arguments: &[&str], steps: &[Value]) -> Vec<McpCallResult> {
    finish(start(machine, arguments, steps), steps)
}

#[track_caller]
pub(crate) fn finish(client: RunningCommand, steps: &[Value]) -> Vec<McpCallResult> {
    let ran = client.wait();
    assert!(ran.status.success(), "{ran:#?}");
    let answers = ran.stdout.lines();
    let mut answers: Vec<McpCallResult> =
        answers.map(|line| McpCallResult(serde_json::from_str(line).unwrap())).collect();
    assert_eq!(answers.len(), steps.len() + 1, "{ran:#?}");
    let server = answers.pop().unwrap();
    assert_eq!(server.raw()["server"]["name"], "angelia");
    answers
}

fn command(machine: &Machine) -> Command {
    let mut command = machine.program("node");
    command.env("PATH", SEARCH_PATH);
    command
}

/// Copies the script beside its packages, where Node.js looks for them.
fn script(machine: &Machine) -> PathBuf {
    let packages = workspace_root().join("target/npm/mcp/node_modules");
    assert!(packages.exists(), "run `cargo xtask setup` first");
    let folder = machine.place.root().join("javascript");
    let script = folder.join("client.mjs");
    if !folder.exists() {
        fs::create_dir(&folder).unwrap();
        fs::write(&script, SCRIPT).unwrap();
        std::os::unix::fs::symlink(packages, folder.join("node_modules")).unwrap();
    }
    script
}
