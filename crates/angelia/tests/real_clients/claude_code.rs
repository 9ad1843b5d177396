//! Claude Code as a client of Angelia, which drives Claude Code.

use std::process::Stdio;

use angelia_testkit::{isolated_home::IsolatedHome, real::RealClaude};
use serde_json::Value;

use crate::{
    daemon_fixture::{DaemonFixture, SCRIPT_TIMEOUT, on_both},
    machine::RunningCommand,
};

on_both! {
    oldest_as_client |bench| super::works(bench, &angelia_testkit::real::RealClaude::oldest().unwrap());
    newest_as_client |bench| super::works(bench, &angelia_testkit::real::RealClaude::newest().unwrap());
}

/// A Claude Code with its own home that uses Angelia as its model API.
struct ClaudeClient {
    place: IsolatedHome,
    claude: RealClaude,
}

impl ClaudeClient {
    /// Runs one command as a user types it, and returns its result.
    #[track_caller]
    fn run_prompt(&self, bench: &DaemonFixture, arguments: &[&str], prompt: &str) -> Value {
        let mut command = bench.machine.program(&self.claude.path);
        command
            .env_clear()
            .envs(self.place.environment())
            .envs(RealClaude::model_variables(&bench.url()))
            .env("ANTHROPIC_AUTH_TOKEN", bench.key())
            .current_dir(self.place.work_dir())
            .args(["-p", "--model", "sonnet", "--output-format", "json"])
            .args(arguments)
            .arg(prompt);
        let ran = RunningCommand::spawn(command, Stdio::null()).wait_within(SCRIPT_TIMEOUT);
        let result: Value = match serde_json::from_str(&ran.stdout) {
            Ok(result) => result,
            Err(error) => panic!("{error}: {ran:#?}"),
        };
        assert_eq!(result["is_error"], false, "{result:#}");
        // Newer versions warn about ids that they do not know, and guess their context window.
        assert!(!ran.stderr.contains("unrecognized_model"), "{ran:#?}");
        result
    }
}

fn works(bench: DaemonFixture, claude: &RealClaude) {
    let client = ClaudeClient { place: IsolatedHome::new().unwrap(), claude: claude.clone() };
    let first = client.run_prompt(&bench, &[], "ECHO:hello from the inside");
    assert_eq!(first["result"], "hello from the inside");
    let session = first["session_id"].as_str().unwrap();

    // The conversation continues, with one model request for each of the client's requests.
    let second = client.run_prompt(&bench, &["--resume", session], "ECHO:and again");
    assert_eq!(second["result"], "and again");
    assert_eq!(bench.model_requests().len(), 2);

    // The client runs its own tools, and the model behind Angelia calls them.
    let call = r#"TOOL:{"name":"mcp__client__Bash","input":{"command":"echo $((40+2)) > made","description":"writes"}}:END ECHO:done"#;
    let allowed = ["--allowedTools", "Bash", "--permission-mode", "acceptEdits"];
    let third = client.run_prompt(&bench, &allowed, call);
    assert_eq!(third["result"], "done", "{third:#}");
    let made = std::fs::read_to_string(client.place.work_dir().join("made")).unwrap();
    assert_eq!(made.trim(), "42");
    bench.end();
}
