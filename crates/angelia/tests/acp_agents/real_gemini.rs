//! Gemini CLI, against a Gemini API on loopback.

use std::fs;

use angelia_testkit::acp_agents::AcpAgent;
use serde_json::json;

use crate::acp_fixture::AcpAgentFixture;

fn lab() -> AcpAgentFixture {
    AcpAgentFixture::new(|_, url| AcpAgent::gemini(url).unwrap())
}

#[test]
fn words_and_what_they_cost() {
    let lab = lab();
    let turn = lab.turn("ECHO:hello from far away");
    assert_eq!(turn.completed().text(), "hello from far away");
    assert_eq!(turn.end()["usage"]["input_tokens"], 11);
    assert!(!turn.of_type("text.delta").is_empty());
}

#[test]
fn a_command_and_a_file_that_is_written_by_us() {
    let lab = lab();
    let turn = lab.run_tool_turn(
        "run_shell_command",
        &json!({"command": "mkdir made", "description": "a test"}),
    );
    assert!(turn.completed().text().ends_with("done"), "{turn:#?}");
    assert!(lab.machine.work().join("made").is_dir());
    assert_eq!(turn.first("tool.started")["class"], "execute");

    let path = lab.machine.work().join("new.txt");
    let turn = lab.run_tool_turn("write_file", &json!({"file_path": path, "content": "by gemini"}));
    turn.completed();
    assert_eq!(fs::read_to_string(&path).unwrap(), "by gemini");
    assert_eq!(turn.first("tool.started")["class"], "edit");
}

#[test]
fn without_a_login_it_says_so() {
    let lab = AcpAgentFixture::new(|_, _| AcpAgent::gemini_without_key().unwrap());
    let ran = lab.machine.angelia(&["run", "hello"]);
    ran.assert_code(77).assert_stderr("API key");
}
