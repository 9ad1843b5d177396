//! Questions for the user: the agent's own, and those of MCP servers.

use angelia_core::model::{
    ApprovalKind, ApprovalStage, Decision, QuestionAnswer as Given, ToolId, Verdict,
};
use serde_json::{Value, json};

use super::{
    requests::{ELICITATION, INPUT, immediate_result},
    turns::TurnDriver,
};

#[test]
fn questions_are_answered_by_their_ids() {
    let ask = json!({"itemId": "q", "questions": [
        {"id": "db", "header": "DB", "question": "Which?", "options": [
            {"label": "A", "description": "a"}]},
        {"id": "port", "header": "P", "question": "Port?", "options": null},
        {"id": "odd"}], "isBlocking": true});
    let mut talk = TurnDriver::new();
    let asked = talk.request_approval(INPUT, &ask);
    let ApprovalKind::Question(questions) = &asked.kind else {
        unreachable!("{asked:?}");
    };
    assert_eq!(questions.len(), 2);
    assert_eq!(&*asked.detail, "Which?\n- A: a\nPort?");
    let mut decision = Decision::new(Verdict::Once, "owner");
    decision.answers.push(Given { question: "Port?".into(), answer: "80".into() });
    let (answer, _) = talk.decide_with(&decision);
    assert_eq!(answer, json!({"answers": {"port": {"answers": ["80"]}}}));
    let mut talk = TurnDriver::new();
    talk.request_approval(INPUT, &ask);
    assert_eq!(talk.decide(Verdict::Deny).0, json!({"answers": {}}));
    let answer = TurnDriver::new().request(0, INPUT, &json!({"questions": []}));
    assert_eq!(immediate_result(&answer), json!({"answers": {}}));
}

fn tool_approval(server: &str, tool: &str) -> Value {
    json!({"serverName": server, "mode": "form",
        "message": format!("Allow the {server} MCP server to run tool \"{tool}\"?"),
        "requestedSchema": {"type": "object", "properties": {}},
        "_meta": {"codex_approval_kind": "mcp_tool_call", "persist": ["session", "always"],
            "tool_params": {"text": "hi"}}})
}

#[test]
fn our_own_server_is_reported_and_others_are_asked_about() {
    let accepted = json!({"action": "accept", "content": {}});
    let mut talk = TurnDriver::new();
    let own = talk.request_approval(ELICITATION, &tool_approval("angelia", "bus_send"));
    assert_eq!(own.stage, ApprovalStage::Report);
    let reply = talk.translator.proceed("0").unwrap();
    assert_eq!(serde_json::from_str::<Value>(reply.result.get()).unwrap(), accepted);

    let mut talk = TurnDriver::new();
    talk.item(
        "started",
        &json!({"type": "mcpToolCall", "id": "r", "server": "lab", "tool": "read",
            "arguments": {}, "readOnlyHint": true}),
    );
    let read = talk.request_approval(ELICITATION, &tool_approval("lab", "read"));
    assert_eq!(read.stage, ApprovalStage::Report, "it changes nothing");

    let mut talk = TurnDriver::new();

    for (tool, arguments) in [("read", json!({})), ("write_thing", json!({"text": "hi"}))] {
        let item = json!({"type": "mcpToolCall", "id": tool, "server": "lab", "tool": tool,
            "arguments": arguments});
        talk.item("started", &item);
    }
    let asked = talk.request_approval(ELICITATION, &tool_approval("lab", "write_thing"));
    assert_eq!(asked.stage, ApprovalStage::Request);
    assert_eq!(&*asked.tool_name, "mcp__lab__write_thing");
    assert_eq!(asked.tool_id, Some(ToolId::new("write_thing")));
    assert!(asked.detail.contains("with: {\"text\":\"hi\"}"), "{}", asked.detail);
    assert_eq!(talk.decide(Verdict::Session).0, accepted, "nothing is remembered");

    let mut talk = TurnDriver::new();
    let asked = talk.request_approval(ELICITATION, &tool_approval("lab", "write_thing"));
    assert_eq!(&*asked.tool_name, "mcp__lab__?", "no rule about a tool covers it");
    let (answer, reply) = talk.decide(Verdict::Stop);
    assert_eq!(answer, json!({"action": "cancel", "content": null}));
    assert!(reply.then_interrupt, "the server would go on");
}

#[test]
fn forms_are_questions_with_typed_answers() {
    let form = json!({"serverName": "lab", "mode": "form", "message": "Order?", "_meta": null,
        "requestedSchema": {"type": "object", "required": ["count"], "properties": {
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "count": {"type": "integer", "description": "how many"},
            "wrapped": {"type": "boolean"}}}});
    let mut talk = TurnDriver::new();
    let asked = talk.request_approval(ELICITATION, &form);
    let ApprovalKind::Question(questions) = &asked.kind else {
        unreachable!("{asked:?}");
    };
    let texts: Vec<&str> = questions.iter().map(|one| &*one.text).collect();
    assert_eq!(texts, ["Order? (colour)", "Order? (how many)", "Order? (wrapped)"]);
    let answers = ["blue", "3", "yes"];
    let mut decision = Decision::new(Verdict::Once, "owner");
    for (question, answer) in questions.iter().zip(answers) {
        decision.answers.push(Given { question: question.text.clone(), answer: answer.into() });
    }
    let (answer, _) = talk.decide_with(&decision);
    let content = json!({"colour": "blue", "count": 3, "wrapped": true});
    assert_eq!(answer, json!({"action": "accept", "content": content}));

    let mut talk = TurnDriver::new();
    talk.request_approval(ELICITATION, &form);
    let (answer, _) = talk.decide(Verdict::Once);
    assert_eq!(answer["action"], "decline", "nothing was filled in");

    let mut talk = TurnDriver::new();
    let open = json!({"serverName": "lab", "mode": "url", "message": "Log in", "url": "http://x",
        "elicitationId": "e"});
    let asked = talk.request_approval(ELICITATION, &open);
    assert!(asked.detail.contains("opens: http://x"), "{}", asked.detail);
}
