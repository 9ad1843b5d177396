//! Things about the server that are easily taken for granted and do not hold.

use angelia_core::{
    model::{ToolId, TurnStatus},
    ports::AgentEvent,
};
use serde_json::json;

use super::{
    driver::{ends, raw, request_id, run, translator},
    translated::context::readings,
    turns::TurnDriver,
};

#[test]
fn ids_of_items_repeat_from_turn_to_turn_and_within_one() {
    let mut talk = TurnDriver::new();
    let command = json!({"type": "commandExecution", "id": "c1", "command": "ls",
        "status": "completed", "exitCode": 0});
    talk.item("started", &command);
    talk.item("completed", &command);
    talk.item("completed", &command);
    talk.item("started", &command);
    talk.item("completed", &command);
    let told: Vec<String> = talk.formatted();
    let starts = |line: &String| line.split(" title").next().unwrap().to_owned();
    let told: Vec<String> = told.iter().map(starts).collect();
    assert_eq!(
        told,
        [
            "tool.started c1 shell execute",
            "tool.finished c1 ok=true \"\"",
            "native item/completed/commandExecution (128 bytes)",
            "tool.started c1#2 shell execute",
            "tool.finished c1#2 ok=true \"\"",
        ]
    );
}

#[test]
fn the_answer_to_turn_start_may_come_late() {
    let mut translator = translator();
    let mut out = Vec::new();
    translator.begin_turn();
    let started = raw(r#"{"threadId":"T","turn":{"id":"a"}}"#);
    translator.on_notification("turn/started", &started, &mut out);
    translator.on_turn_accepted(&raw(r#"{"turn":{"id":"a"}}"#), &mut out);
    let begun = out.iter().filter(|emitted| matches!(emitted, AgentEvent::Event(_)));
    assert_eq!(begun.count(), 1, "started once");
    let ended = raw(r#"{"threadId":"T","turn":{"id":"a","status":"completed"}}"#);
    assert!(translator.on_notification("turn/completed", &ended, &mut out).is_some());
    translator.on_turn_accepted(&raw(r#"{"turn":{"id":"a"}}"#), &mut out);
}

#[test]
fn a_resumed_thread_repeats_its_last_usage_under_an_old_turn() {
    let mut translator = translator();
    let mut out = Vec::new();
    translator.begin_turn();
    let usage = raw(
        r#"{"threadId":"T","turnId":"old","tokenUsage":{"total":{"inputTokens":7},"last":{}}}"#,
    );
    translator.on_notification("thread/tokenUsage/updated", &usage, &mut out);
    let started = raw(r#"{"threadId":"T","turn":{"id":"new"}}"#);
    translator.on_notification("turn/started", &started, &mut out);
    assert_eq!(translator.active_turn(), Some("new"));
}

#[test]
fn a_turn_start_during_a_turn_steers_it() {
    let steps = run("steer");
    let ends = ends(&steps);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].text.as_deref(), Some("Steered answer."));
}

#[test]
fn a_background_commands_end_is_not_the_next_turns() {
    let mut talk = TurnDriver::new();
    let command = json!({"type": "commandExecution", "id": "c1", "command": "sleep 9",
        "status": "completed", "exitCode": 0});
    talk.item("started", &command);
    talk.notify("turn/completed", &json!({"turn": {"id": "turn-1", "status": "completed"}}));
    talk.begin("turn-2");
    let item = json!({"item": command, "turnId": "turn-2"});
    talk.notify("item/started", &item);
    talk.formatted();
    talk.item("completed", &command);
    let told = talk.formatted();
    assert!(!told.iter().any(|line| line.starts_with("tool.finished")), "{told:?}");
    talk.notify("item/completed", &item);
    assert_eq!(talk.formatted(), ["tool.finished c1 ok=true \"\""]);
}

#[test]
fn a_search_says_at_the_end_what_it_was_about() {
    let steps = run("view-image-and-web-search");
    let text = super::spell::spell(&steps);
    assert!(text.contains("title=\"search the web: weather\""), "{text}");
    let mut talk = TurnDriver::new();
    talk.item("started", &json!({"type": "webSearch", "id": "w", "query": ""}));
    assert_eq!(talk.formatted(), Vec::<String>::new());
    talk.translator.on_end_of_output(&mut talk.out);
    let told = talk.formatted();
    assert!(told[0].starts_with("tool.started w web_search"), "{told:?}");
    assert!(told[1].starts_with("tool.finished w ok=false"), "{told:?}");
}

#[test]
fn the_end_of_another_turn_is_not_ours() {
    let mut talk = TurnDriver::new();
    let other = json!({"turn": {"id": "turn-9", "status": "completed"}});
    assert!(talk.notify("turn/completed", &other).is_none());
    let elsewhere = json!({"threadId": "X", "turn": {"id": "turn-1", "status": "completed"}});
    assert!(talk.notify("turn/completed", &elsewhere).is_none());
    let nameless = json!({"turn": {"status": "completed"}});
    assert!(talk.notify("turn/completed", &nameless).is_none());
    let odd = json!({"turn": {"id": "turn-1", "status": "odd"}});
    let Some(ended) = talk.notify("turn/completed", &odd) else {
        unreachable!("it is over, whatever it says");
    };
    assert!(matches!(ended.status, TurnStatus::Failed(_)));
}

#[test]
fn sub_agents_speak_under_threads_of_their_own() {
    let mut talk = TurnDriver::new();
    let spawn = json!({"type": "collabAgentToolCall", "id": "a1", "tool": "spawnAgent",
        "prompt": "look around", "status": "completed", "receiverThreadIds": ["child"]});
    talk.item("started", &spawn);
    assert!(talk.translator.owns("child") && !talk.translator.owns("stranger"));
    talk.formatted();
    let command = json!({"type": "commandExecution", "id": "c1", "command": "ls",
        "status": "completed", "exitCode": 0});
    let of_child =
        |item: &serde_json::Value| json!({"item": item, "threadId": "child", "turnId": "t"});
    talk.notify("item/started", &of_child(&command));
    talk.notify(
        "item/completed",
        &of_child(&json!({"type": "agentMessage", "id": "m", "text": "x"})),
    );
    let usage = json!({"threadId": "child", "turnId": "t", "tokenUsage":
        {"total": {"inputTokens": 40}, "last": {"totalTokens": 40, "inputTokens": 40},
         "modelContextWindow": 100}});
    talk.notify("thread/tokenUsage/updated", &usage);
    let ask = raw(
        r#"{"threadId":"child","turnId":"t","itemId":"c1","command":"ls","cwd":"/w","reason":"r"}"#,
    );
    let method = "item/commandExecution/requestApproval";
    talk.translator.on_request(&request_id("0"), method, &ask, &mut talk.out);
    let asked = talk.out.iter().find_map(|emitted| match emitted {
        AgentEvent::ApprovalRequest(ask) => ask.tool_id.clone(),
        _ => None,
    });
    assert_eq!(asked, Some(ToolId::new("c1")));
    let told = talk.formatted();
    assert!(told[0].starts_with("tool.started c1 shell execute"), "{told:?}");
    assert!(told[0].contains("parent=a1"), "{told:?}");
    assert!(told[1].starts_with("native sub-agent/item/completed/agentMessage"), "{told:?}");
    assert!(told[2].contains("by a sub-agent"), "{told:?}");
    let ended = json!({"threadId": "child", "turn": {"id": "t", "status": "completed"}});
    assert!(talk.notify("turn/completed", &ended).is_none(), "not our end");
    talk.notify("turn/completed", &json!({"turn": {"id": "turn-1", "status": "completed"}}));
    assert_eq!(readings(&talk.out), ["-"], "its context is its own");
    let told = talk.formatted();
    assert!(told.iter().any(|line| line.starts_with("usage in=40 ")), "{told:?}");
}
