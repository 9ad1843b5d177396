//! The fake CLI: its turns, and that its lines have the shape of the real program's lines.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, ffi::OsString, time::Duration};

use angelia_testkit::{
    isolated_home::IsolatedHome,
    model_server::ModelServer,
    programs,
    real::RealClaude,
    stream_json::{StreamJsonDriver, StreamJsonError},
};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(30);
const PERMISSION_FLAGS: [&str; 3] =
    ["--include-partial-messages", "--permission-prompt-tool", "stdio"];

fn start_with(extra: &[&str], variables: &[(&str, &str)]) -> (StreamJsonDriver, IsolatedHome) {
    let place = IsolatedHome::new().unwrap();
    let mut environment = place.environment();
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), value.into()));
    environment.extend(variables);
    let mut arguments = RealClaude::stream_arguments();
    arguments.extend(extra);
    let program = programs::fake_cli().unwrap();
    let driver =
        StreamJsonDriver::start(&program, arguments, environment, &place.work_dir()).unwrap();
    (driver, place)
}

fn start(extra: &[&str]) -> (StreamJsonDriver, IsolatedHome) {
    start_with(extra, &[])
}

fn text(lines: &[Value]) -> String {
    lines.iter().filter_map(|line| line["event"]["delta"]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_turn_has_deltas_its_block_and_a_result() {
    let (mut cli, _place) = start(&["--include-partial-messages", "--session-id", "s-1"]);
    cli.send_control_request("c", json!({"subtype": "initialize"})).await.unwrap();
    let answer = cli.next_line().await.unwrap();
    assert_eq!(answer["response"]["response"]["account"]["apiKeySource"], "ANTHROPIC_API_KEY");
    for turn in 0..3 {
        let id = cli.send_prompt("WORDS:40").await.unwrap();
        let lines = cli.read_result(DEADLINE).await.unwrap();
        assert_eq!(text(&lines).split_whitespace().count(), 40);
        let result = lines.last().unwrap();
        assert_eq!(result["user_message_uuids"], json!([id]));
        assert_eq!((&result["session_id"], &result["result_index"]), (&json!("s-1"), &json!(turn)));
        assert_eq!(result["result"], text(&lines));
        assert_eq!(cli.next_line().await.unwrap()["state"], "completed");
    }
    assert_eq!(cli.close().await.unwrap(), Some(0));
}

#[tokio::test]
async fn without_partials_there_are_no_deltas_and_the_log_tells_all() {
    let place = IsolatedHome::new().unwrap();
    let log = place.root().join("log");
    let (mut cli, _place) =
        start_with(&["--model", "m"], &[("FAKE_CLI_LOG", log.to_str().unwrap())]);
    cli.send_prompt("ECHO:as it is").await.unwrap();
    let lines = cli.read_result(DEADLINE).await.unwrap();
    assert!(lines.iter().all(|line| line["type"] != "stream_event"));
    assert_eq!(lines.last().unwrap()["result"], "as it is");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.lines().next().unwrap().contains(r#""--model","m""#), "{log}");
    assert!(log.lines().nth(1).unwrap().contains("ECHO:as it is"), "{log}");
}

#[tokio::test]
async fn a_tool_waits_for_the_client() {
    let (mut cli, _place) = start(&PERMISSION_FLAGS);
    let prompt = r#"TOOL:{"name":"Bash","input":{"command":"ls"}}:END"#;
    for (verdict, denials) in [
        (json!({"behavior": "allow", "updatedInput": {"command": "pwd"}}), 0),
        (json!({"behavior": "deny", "message": "no"}), 1),
    ] {
        cli.send_prompt(prompt).await.unwrap();
        let lines =
            cli.read_until(DEADLINE, |line| line["type"] == "control_request").await.unwrap();
        let asked = lines.last().unwrap();
        assert_eq!(asked["request"]["input"]["command"], "ls");
        cli.send_control_response(&asked["request_id"], verdict).await.unwrap();
        let lines = cli.read_result(DEADLINE).await.unwrap();
        let shown = lines.iter().find(|line| line["type"] == "user").unwrap();
        let shown = &shown["message"]["content"][0];
        assert_eq!(shown["content"], if denials == 0 { "pwd" } else { "no" });
        let result = lines.last().unwrap();
        assert_eq!(result["permission_denials"].as_array().unwrap().len(), denials);
        assert_eq!(result["usage"]["input_tokens"], 22);
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_in_every_state() {
    let (mut cli, _place) = start(&PERMISSION_FLAGS);
    let tool = r#"TOOL:{"name":"Bash","input":{}}:END"#;
    for (prompt, ready, reason) in [
        ("WORDS:100000:5", "stream_event", "aborted_streaming"),
        ("HANG", "stream_event", "aborted_streaming"),
        (tool, "control_request", "aborted_tools"),
    ] {
        cli.send_prompt(prompt).await.unwrap();
        cli.read_until(DEADLINE, |line| line["type"] == ready).await.unwrap();
        cli.send_control_request("i", json!({"subtype": "interrupt"})).await.unwrap();
        let lines = cli.read_result(DEADLINE).await.unwrap();
        assert_eq!(lines.last().unwrap()["terminal_reason"], reason, "{prompt}");
        assert_eq!(cli.next_line().await.unwrap()["state"], "cancelled");
    }
    cli.send_prompt("ECHO:still here").await.unwrap();
    let lines = cli.read_result(DEADLINE).await.unwrap();
    assert_eq!(lines.last().unwrap()["result"], "still here");
}

#[tokio::test]
async fn messages_queue_and_can_be_cancelled() {
    let (mut cli, _place) = start(&["--include-partial-messages"]);
    cli.send_prompt("WORDS:100000:5").await.unwrap();
    let second = cli.send_prompt("ECHO:second").await.unwrap();
    let queued = |line: &Value| line["command_uuid"] == json!(second);
    cli.read_until(DEADLINE, queued).await.unwrap();
    cli.send_control_request("i", json!({"subtype": "interrupt"})).await.unwrap();
    cli.read_result(DEADLINE).await.unwrap();
    let lines = cli.read_result(DEADLINE).await.unwrap();
    assert_eq!(lines.last().unwrap()["result"], "second");
}

#[tokio::test]
async fn it_dies_as_told() {
    let (mut cli, _place) = start(&["--include-partial-messages"]);
    cli.send_prompt("DIE").await.unwrap();
    let error = cli.read_result(DEADLINE).await.unwrap_err();
    assert!(matches!(error, StreamJsonError::NotJson(_)), "{error}");
    let (mut cli, _place) = start(&["--include-partial-messages"]);
    cli.send_prompt("EXIT:3").await.unwrap();
    assert!(matches!(cli.read_result(DEADLINE).await, Err(StreamJsonError::OutputEnded(_))));
    assert_eq!(cli.close().await.unwrap(), Some(3));
    let (mut cli, _place) = start(&[]);
    cli.send(&json!({"type": "user"})).await.unwrap();
    assert_eq!(cli.close().await.unwrap(), Some(1));
}

#[tokio::test]
async fn the_old_version_leaves_the_new_lines_out() {
    let (mut cli, _place) =
        start_with(&["--include-partial-messages"], &[("FAKE_CLI_VERSION", "2.1.197")]);
    cli.send_prompt("STATUS:401").await.unwrap();
    let lines = cli.read_result(DEADLINE).await.unwrap();
    assert!(lines.iter().all(|line| line["type"] != "command_lifecycle"));
    let result = lines.last().unwrap();
    assert_eq!(
        (&result["is_error"], &result["terminal_reason"]),
        (&json!(true), &json!("completed"))
    );
}

/// Every field that the fake prints also appears on the real program's line of that kind.
#[tokio::test]
async fn real_lines_have_all_fields_of_the_fake() {
    for claude in RealClaude::all().unwrap() {
        let (mut fake, _place) =
            start_with(&PERMISSION_FLAGS, &[("FAKE_CLI_VERSION", claude.version)]);
        let server = ModelServer::start().unwrap();
        let place = IsolatedHome::new().unwrap();
        let mut arguments = RealClaude::stream_arguments();
        arguments.extend(PERMISSION_FLAGS);
        let environment = place.agent_environment(&server.base_url());
        let mut real =
            StreamJsonDriver::start(&claude.path, arguments, environment, &place.work_dir())
                .unwrap();

        let call = json!({"name": "Bash", "input": {"command": "mkdir x", "description": "d"}});
        let prompt = format!("THINK TOOL:{call}:END ECHO:done");
        let mut shapes = Vec::new();
        for driver in [&mut fake, &mut real] {
            driver.send_prompt(&prompt).await.unwrap();
            let asked = |line: &Value| line["type"] == "control_request";
            let mut lines = driver.read_until(DEADLINE, asked).await.unwrap();
            let asked = lines.last().unwrap();
            let answer = json!({"behavior": "allow", "updatedInput": asked["request"]["input"]});
            let id = asked["request_id"].clone();
            driver.send_control_response(&id, answer).await.unwrap();
            lines.extend(driver.read_result(DEADLINE).await.unwrap());
            shapes.push(lines.iter().flat_map(shape).collect::<BTreeSet<_>>());
        }
        let invented: Vec<_> = shapes[0].difference(&shapes[1]).collect();
        assert!(invented.is_empty(), "{}: {invented:#?}", claude.version);
    }
}

/// Returns the paths of a line's fields, prefixed with the line's kind.
fn shape(line: &Value) -> Vec<String> {
    let mut kind = line["type"].as_str().unwrap().to_owned();
    for part in [&line["subtype"], &line["event"]["type"]] {
        kind.push('/');
        kind.push_str(part.as_str().unwrap_or_default());
    }
    let fields = line.as_object().unwrap();
    let mut paths: Vec<String> = fields.keys().map(|key| format!("{kind} {key}")).collect();
    for (name, part) in [("message", &line["message"]), ("usage", &line["usage"])] {
        let Some(fields) = part.as_object() else {
            continue;
        };
        paths.extend(fields.keys().map(|key| format!("{kind} {name}.{key}")));
    }
    paths
}
