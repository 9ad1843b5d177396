//! The acceptance rows of the Claude Code bridge, one test per row, through the program, on the
//! oldest and the newest supported Claude Code. The tests check the requests to the scripted model.

mod answers;
mod cache;
mod environment;
mod launch;
mod limits;
mod prompt;
mod switch;

use angelia_testkit::{
    model_server::{ModelServer, SharedRequest},
    real::RealClaude,
};
use serde_json::Value;

use crate::machine::Machine;

/// A machine with one version of the real program and its own scripted model.
pub(crate) struct ClaudeFixture {
    pub(crate) machine: Machine,
    pub(crate) claude: RealClaude,
    pub(crate) server: ModelServer,
}

/// Returns the lines of a profile that uses this program with this model. The lines end with the
/// profile's variables.
pub(crate) fn profile(machine: &Machine, claude: &RealClaude, server: &ModelServer) -> String {
    let lines = claude.config_lines(&machine.place, &server.base_url());
    format!("\n    executor: claude\n{}", lines.trim_end())
}

/// Like [`profile`], but without an API key: the program needs its own login.
pub(crate) fn profile_without_key(
    machine: &Machine,
    claude: &RealClaude,
    server: &ModelServer,
) -> String {
    let lines = claude.config_lines_without_login(&machine.place, &server.base_url());
    format!("\n    executor: claude\n{}", lines.trim_end())
}

impl ClaudeFixture {
    fn new(claude: &RealClaude) -> Self {
        Self {
            machine: Machine::with_shell(),
            claude: claude.clone(),
            server: ModelServer::start().unwrap(),
        }
    }

    /// Makes the program the default profile, with more lines from the test.
    pub(crate) fn configure(&self, more: &[&str]) {
        self.machine.configure(&format!("profiles:\n  default:{}\n", self.profile(more)));
    }

    pub(crate) fn profile(&self, more: &[&str]) -> String {
        let mut text = profile(&self.machine, &self.claude, &self.server);
        for line in more {
            text.push_str("\n    ");
            text.push_str(line);
        }
        text
    }

    /// Configures the program through the block that Hermes uses, with more lines from the test.
    pub(crate) fn configure_bridge(&self, more: &[&str]) {
        let block = self.profile(more).replace("\n    executor: claude", "");
        self.machine.configure(&format!(
            "profiles:\n  default: {{executor: parrot}}\nclaude_code_bridge:{block}\n"
        ));
    }

    pub(crate) fn last_request(&self) -> SharedRequest {
        self.server.model_requests().pop().unwrap()
    }
}

/// Runs a test on each version of this run.
#[expect(clippy::print_stderr, reason = "a failure has to say on which version")]
pub(crate) fn on_each_version(test: impl Fn(&mut ClaudeFixture)) {
    for claude in RealClaude::for_product_tests().unwrap() {
        eprintln!("--- Claude Code {}", claude.version);
        test(&mut ClaudeFixture::new(&claude));
    }
}

/// Returns the system prompt without its first block, which differs from request to request.
pub(crate) fn system(request: &Value) -> String {
    let blocks = request["system"].as_array().unwrap();
    blocks[1..].iter().map(|block| block["text"].as_str().unwrap()).collect()
}

pub(crate) fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Returns a prompt that makes the model call the shell.
pub(crate) fn bash(command: &str) -> String {
    let input = serde_json::json!({"command": command, "description": "a test's command"});
    format!("TOOL:{}:END", serde_json::json!({"name": "Bash", "input": input}))
}
