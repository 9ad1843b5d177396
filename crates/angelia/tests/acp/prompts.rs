//! One prompt, and the updates of its turn.

use serde_json::json;

use crate::{editor::Editor, machine::Machine};

#[test]
fn what_works_is_advertised_and_nothing_else() {
    let machine = Machine::new();
    let mut editor = Editor::start(&machine, &[]);
    let hello = json!({"protocolVersion": 7, "clientCapabilities": {}});
    let mut answer = editor.call("initialize", hello).unwrap();
    answer["agentInfo"]["version"] = "[version]".into();
    insta::assert_json_snapshot!(answer);
}

#[test]
fn a_turn_is_shown_as_it_happens() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let script = "hello\n!think about it\n!tool Read\n!words 3";
    let answer = editor.prompt(&session, script).unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    assert!(answer["usage"]["totalTokens"].as_u64().unwrap() > 0, "{answer}");
    assert_eq!(editor.update_text("agent_thought_chunk"), "about it");
    let words = editor.update_text("agent_message_chunk");
    assert!(words.contains("You said: hello") && words.ends_with("word1 word2 word3"), "{words}");
    let [call] = &*editor.updates("tool_call") else { panic!() };
    assert_eq!((&call["kind"], &call["name"]), (&json!("read"), &json!("Read")));
    assert_eq!(call["locations"], json!([{"path": machine.work().join("pretended.txt")}]));
    let [done] = &*editor.updates("tool_call_update") else { panic!() };
    assert_eq!((&done["toolCallId"], &done["status"]), (&call["toolCallId"], &json!("completed")));
}

#[test]
fn a_tool_runs_when_it_is_allowed_and_only_then() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    for (kind, says, status) in
        [("allow_once", "You allowed", "completed"), ("reject_once", "You refused", "failed")]
    {
        editor.received.clear();
        editor.permission_choice = kind;
        let answer = editor.prompt(&session, "!ask ls").unwrap();
        assert_eq!(answer["stopReason"], "end_turn");
        let words = editor.update_text("agent_message_chunk");
        assert!(words.contains(says), "{kind}: {words}");
        let updates = editor.updates("tool_call_update");
        assert_eq!(updates.last().unwrap()["status"], status, "{kind}");
        let asked =
            editor.received.iter().filter(|line| line["method"] == "session/request_permission");
        let asked: Vec<_> = asked.collect();
        let [asked] = &*asked else { panic!("{asked:?}") };
        let tool = &asked["params"]["toolCall"];
        assert_eq!(tool["toolCallId"], editor.updates("tool_call")[0]["toolCallId"]);
        assert_eq!((&tool["kind"], &tool["status"]), (&json!("execute"), &json!("pending")));
        assert_eq!(tool["rawInput"]["command"], "ls");
    }
}

#[test]
fn what_was_allowed_for_the_session_is_not_asked_again() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    editor.permission_choice = "allow_always";
    editor.prompt(&session, "!ask ls").unwrap();
    editor.received.clear();
    editor.prompt(&session, "!ask ls").unwrap();
    assert!(!editor.received.iter().any(|line| line["method"] == "session/request_permission"));
}

/// An editor gives this answer when the user cancels during a permission request.
#[test]
fn a_permission_that_is_cancelled_ends_the_turn() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    editor.permission_choice = "cancel";
    let answer = editor.prompt(&session, "!ask ls\n!hang").unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
}

#[test]
fn a_question_is_a_choice_among_its_options() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let id = editor.send_prompt(&session, "!question");
    let asked = editor.read_until(|line| line["method"] == "session/request_permission");
    let names: Vec<_> = asked["params"]["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Green", "Red", "Blue", "Skip"]);
    editor.send_result(&asked, &json!({"outcome": {"outcome": "selected", "optionId": "1"}}));
    editor.answer(id).unwrap();
    assert!(editor.update_text("agent_message_chunk").contains("You chose Red"));
}

#[test]
fn a_question_is_a_form_where_the_editor_has_forms() {
    let machine = Machine::new();
    let can = json!({"elicitation": {"form": {}}});
    let mut editor = Editor::open_with(&machine, &[], &can);
    let session = editor.session(&machine);
    for (answer, says) in [
        (json!({"action": "accept", "content": {"Colour": "Blue"}}), "You chose Blue"),
        (json!({"action": "decline"}), "did not"),
    ] {
        editor.received.clear();
        let id = editor.send_prompt(&session, "!question");
        let asked = editor.read_until(|line| line["method"] == "elicitation/create");
        assert_eq!(asked["params"]["sessionId"], json!(session));
        editor.send_result(&asked, &answer);
        editor.answer(id).unwrap();
        let words = editor.update_text("agent_message_chunk");
        assert!(words.contains(says), "{says}: {words}");
    }
}

#[test]
fn cancelling_ends_the_turn_and_withdraws_what_was_asked() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let id = editor.send_prompt(&session, "!words 2\n!hang");
    editor.read_until(|line| line["params"]["update"]["content"]["text"] == "word2");
    editor.notify("session/cancel", &json!({"sessionId": session}));
    assert_eq!(editor.answer(id).unwrap()["stopReason"], "cancelled");

    let id = editor.send_prompt(&session, "!ask ls");
    let asked = editor.read_until(|line| line["method"] == "session/request_permission");
    editor.notify("session/cancel", &json!({"sessionId": session}));
    let withdrawn = editor.read_until(|line| line["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    assert_eq!(editor.answer(id).unwrap()["stopReason"], "cancelled");
    // The cancel comes too late and has no effect.
    editor.answer_permission(&asked, "allow_once");
    assert_eq!(editor.prompt(&session, "again").unwrap()["stopReason"], "end_turn");
}

/// Prompt and cancel come in one write, so the turn has not started when it is cancelled.
#[test]
fn a_prompt_is_cancelled_however_early() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let prompt = json!([{"type": "text", "text": "!hang"}]);
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel",
        "params": {"sessionId": session}});
    for _ in 0..20 {
        let params = json!({"sessionId": session, "prompt": prompt});
        let (id, line) = editor.request_line("session/prompt", &params);
        editor.write_bytes(format!("{line}{cancel}\n").as_bytes());
        assert_eq!(editor.answer(id).unwrap()["stopReason"], "cancelled");
    }
}

#[test]
fn failures_are_errors_that_say_what_to_do() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    for (script, code, kind) in [
        ("!fail auth", -32000, "auth"),
        ("!fail invalid", -32602, "invalid"),
        ("!die", -32603, "agent"),
    ] {
        let error = editor.prompt(&session, script).unwrap_err();
        assert_eq!(error["code"], code, "{error}");
        assert_eq!(error["data"]["failure"]["kind"], kind, "{error}");
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    let refused = editor.prompt(&session, "!fail refused").unwrap();
    assert_eq!(refused["stopReason"], "refusal");
    let limited = editor.prompt(&session, "!fail rate").unwrap_err();
    assert_eq!(limited["data"]["failure"]["kind"], "rate_limited", "{limited}");
}

#[test]
fn a_budget_ends_a_turn_with_what_there_is() {
    let machine = Machine::new();
    machine.configure(
        "profiles: {default: {budget_tool_count: 1, auto_resume_budget_guard: false}}\n",
    );
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let answer = editor.prompt(&session, "!tool Read\n!tool Read\n!hang").unwrap();
    assert_eq!(answer["stopReason"], "max_turn_requests");
    assert_eq!(answer["_meta"]["angelia"]["status"], "partial");
}

#[test]
fn notices_go_to_editors_that_want_them() {
    let machine = Machine::new();
    machine.configure("profiles: {default: {disallowed_tools: [Bash]}}\n");
    for (can, told) in [(json!({"session": {"notices": {}}}), 1), (json!({}), 0)] {
        let mut editor = Editor::open_with(&machine, &[], &can);
        let session = editor.session(&machine);
        editor.prompt(&session, "!ask ls").unwrap();
        let notices = editor.updates("notice");
        assert_eq!(notices.len(), told, "{notices:?}");
    }
}

#[test]
fn text_images_resources_and_links_are_input() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let prompt = json!([
        {"type": "text", "text": "one"},
        {"type": "resource_link", "name": "a.txt", "uri": "file:///w/a.txt"},
        {"type": "resource", "resource": {"uri": "file:///w/b.txt", "text": "inside"}},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
    ]);
    let params = json!({"sessionId": session, "prompt": prompt});
    editor.call("session/prompt", params).unwrap();
    let words = editor.update_text("agent_message_chunk");
    for part in ["one", "[a.txt](file:///w/a.txt)", "<resource uri=\"file:///w/b.txt\">"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let audio = json!([{"type": "audio", "mimeType": "audio/wav", "data": ""}]);
    let params = json!({"sessionId": session, "prompt": audio});
    assert_eq!(editor.call("session/prompt", params).unwrap_err()["code"], -32602);
}
