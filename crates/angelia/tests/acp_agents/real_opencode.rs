//! `OpenCode`, with a provider on loopback.

use std::fs;

use angelia_testkit::acp_agents::AcpAgent;
use serde_json::json;

use crate::acp_fixture::AcpAgentFixture;

fn lab() -> AcpAgentFixture {
    AcpAgentFixture::new(|_, url| AcpAgent::opencode(url).unwrap())
}

#[test]
fn words_and_a_conversation_that_goes_on() {
    let lab = lab();
    let first = lab.turn("ECHO:the first words");
    assert_eq!(first.completed().text(), "the first words");
    assert_eq!(first.first("turn.started")["model"], "fake/m1");
    let second = lab.run_turn_with(&["-s", first.session(), "ECHO:the second words"]);
    assert_eq!(second.completed().text(), "the second words");
    assert_eq!(second.first("turn.started")["resumed"], true);
    assert!(lab.last_model_request().contains("the first words"));
}

#[test]
fn a_command_and_a_file_that_is_written_by_us() {
    let lab = lab();
    let turn =
        lab.run_tool_turn("bash", &json!({"command": "mkdir made", "description": "a test"}));
    assert!(turn.completed().text().ends_with("done"), "{turn:#?}");
    assert!(lab.machine.work().join("made").is_dir());
    let path = lab.machine.work().join("new.txt");
    let turn = lab.run_tool_turn("write", &json!({"filePath": path, "content": "by opencode"}));
    turn.completed();
    assert_eq!(fs::read_to_string(&path).unwrap(), "by opencode");
}

#[test]
fn a_login_that_is_not_accepted_is_named() {
    let lab = lab();
    let ran = lab.machine.angelia(&["run", "STATUS:401"]);
    ran.assert_code(77).assert_stderr("api-key");
}
