//! Claude's adapter, with its bundled Claude Code.

use angelia_testkit::acp_agents::AcpAgent;
use serde_json::json;

use crate::{acp_fixture::AcpAgentFixture, lost_transcripts::lose_transcripts};

fn lab() -> AcpAgentFixture {
    AcpAgentFixture::new(|machine, url| AcpAgent::claude_with_key(&machine.place, url).unwrap())
}

#[test]
fn words_and_a_conversation_that_goes_on() {
    let lab = lab();
    let first = lab.turn("ECHO:the first words");
    assert_eq!(first.completed().text(), "the first words");
    assert_eq!(first.first("turn.started")["executor"], "acp");
    let second = lab.run_turn_with(&["-s", first.session(), "ECHO:the second words"]);
    assert_eq!(second.completed().text(), "the second words");
    assert_eq!(second.first("turn.started")["resumed"], true);
    assert!(lab.last_model_request().contains("the first words"));
    assert!(second.of_type("notice").is_empty(), "{second:#?}");
}

#[test]
fn a_lost_conversation_is_carried_from_our_record() {
    let lab = lab();
    let first = lab.turn("ECHO:the first words");
    lose_transcripts(&lab.machine);
    let second = lab.run_turn_with(&["-s", first.completed().session(), "ECHO:the second words"]);
    assert_eq!(second.completed().text(), "the second words");
    assert_eq!(second.first("turn.started")["resumed"], false);
    assert_eq!(second.first("notice")["code"], "history_carried", "{second:#?}");
    assert!(lab.last_model_request().contains("the first words"));
}

#[test]
fn a_tool_runs_and_money_is_counted() {
    let lab = lab();
    let input = json!({"command": "mkdir made", "description": "a test"});
    let turn = lab.run_tool_turn("Bash", &input);
    assert!(turn.completed().text().ends_with("done"), "{turn:#?}");
    assert!(lab.machine.work().join("made").is_dir());
    let started = turn.first("tool.started");
    assert_eq!((&started["name"], &started["class"]), (&json!("Bash"), &json!("execute")));
    assert_eq!(started["title"], "mkdir made");
    assert_eq!(turn.first("tool.finished")["ok"], true);
    assert!(turn.end()["usage"]["cost_usd"].as_f64().unwrap() > 0.0);
    // The agent itself reports its context size.
    let context = &turn.end()["usage"]["context"];
    assert!(context["used"].as_u64().unwrap() > 0, "{context}");
    assert!(context["size"].as_u64() > context["used"].as_u64(), "{context}");
}

#[test]
fn without_a_login_it_says_so() {
    let lab = AcpAgentFixture::new(|machine, url| AcpAgent::claude(&machine.place, url).unwrap());
    let ran = lab.machine.angelia(&["run", "hello"]);
    ran.assert_code(77).assert_stderr("log in");
}
