//! Unexpected messages of an agent.

use angelia_core::{
    model::{EventKind, PlanStatus, TurnStatus},
    ports::AgentEvent,
};
use angelia_testkit::direct_session::TurnHandle;
use serde_json::json;

use crate::harness::{AcpHarness, repeated_answers, request_steps, send_step, update_step};

#[tokio::test]
async fn unknown_updates_and_nonsense_end_nothing() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let script = [
        update_step(&json!({"sessionUpdate": "brand_new", "x": 1})),
        update_step(&json!({"sessionUpdate": 7})),
        update_step(&json!("nothing")),
        send_step(&json!({"method": "_vendor/thing", "params": {}})),
        send_step(&json!({"id": "strange", "result": {}})),
        "raw this is not JSON\nraw {\"half\":\nraw \n".to_owned(),
        request_steps("_vendor/ask", json!({})),
        update_step(
            &json!({"sessionUpdate": "plan", "entries": [{"content": "one", "status": "completed"}]}),
        ),
    ];
    let heard = session.prompt(&script.concat()).await;
    assert_eq!(heard.outcome.status, TurnStatus::Completed);
    assert_eq!(repeated_answers(&heard)[0]["error"]["code"], -32601);
    let natives = heard.events().filter_map(|event| match event {
        EventKind::Native { name, .. } => Some(&**name),
        _ => None,
    });
    let natives: Vec<&str> = natives.collect();
    assert!(natives.contains(&"brand_new") && natives.contains(&"_vendor/thing"), "{natives:?}");
    let planned = heard.events().any(|event| {
        matches!(event, EventKind::Plan(plan) if plan.items[0].status == PlanStatus::Completed)
    });
    assert!(planned, "{heard:#?}");
    session.close().await;
}

#[tokio::test]
async fn a_flood_arrives_whole() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let heard = session.prompt("flood 20000").await;
    let said = heard.deltas();
    assert!(said.starts_with("piece 0 ") && said.ends_with("piece 19999 "));
    assert_eq!(said.split_whitespace().count(), 40_000);
    session.close().await;
}

#[tokio::test]
async fn a_tool_that_is_only_announced_is_shown_all_the_same() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let tool =
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Think", "kind": "think"});
    let script = format!("{}hang", update_step(&tool));
    let watch = |one: &AgentEvent, hands: &TurnHandle| {
        if let AgentEvent::Event(EventKind::ToolCall(_)) = one {
            hands.cancel.cancel();
        }
    };
    let heard = session.prompt_watched(&script, watch).await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted);
    assert_eq!(heard.tool_calls().len(), 1);
    assert!(!heard.tool_results()[0].ok);
    session.close().await;
}

#[tokio::test]
async fn what_comes_behind_the_end_of_a_turn_is_nobodys() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    // Its prompt is the third request.
    let end = send_step(&json!({"id": 2, "result": {"stopReason": "cancelled"}}));
    let heard = session.prompt(&format!("say before\n{end}say late\nsay later")).await;
    assert_eq!(heard.deltas(), "before");
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted);
    let heard = session.prompt("say next").await;
    assert_eq!(heard.deltas(), "next");
    session.close().await;
}

#[tokio::test]
async fn stop_reasons_and_errors_end_a_turn_each_in_its_way() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let table = [
        (". end_turn", "completed"),
        (". max_tokens", "completed"),
        (". something_new", "completed"),
        (". max_turn_requests", "partial"),
        (". cancelled", "interrupted"),
        (". refusal", "failed"),
        ("! -32000 log in", "failed"),
        ("! -32603 Internal error", "failed"),
    ];
    for (script, status) in table {
        let heard = session.prompt(&format!("say words\n{script}")).await;
        assert_eq!(heard.outcome.status.as_str(), status, "{script}: {heard:#?}");
        assert_eq!(heard.deltas(), "words");
        assert!(session.agent.is_usable(), "{script}");
    }
    let heard = session.prompt("stderr what really happened\n! -32603 Internal error").await;
    let hint = heard.failure().hint.as_deref().unwrap();
    assert!(!hint.is_empty());
    session.close().await;
}
