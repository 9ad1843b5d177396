//! Sessions: created, listed, reopened by another process, closed, removed.

use std::fs;

use serde_json::{Value, json};

use crate::{
    agent_processes,
    editor::Editor,
    machine::{Machine, until},
};

fn at(machine: &Machine, session: &str) -> Value {
    json!({"sessionId": session, "cwd": machine.work(), "mcpServers": []})
}

#[test]
fn a_conversation_is_shown_again_in_another_process() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    editor.permission_choice = "allow_once";
    editor.prompt(&session, "first\n!think hm\n!ask ls").unwrap();
    editor.prompt(&session, "second").unwrap();
    let said = |editor: &Editor| {
        let kinds = ["agent_message_chunk", "agent_thought_chunk"];
        kinds.map(|kind| editor.update_text(kind))
    };
    let before = said(&editor);
    assert_eq!(editor.end().1, Some(0));

    let mut editor = Editor::open(&machine);
    let loaded = editor.call("session/load", at(&machine, &session)).unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "ask");
    assert_eq!(said(&editor), before);
    assert_eq!(editor.update_text("user_message_chunk"), "first\n!think hm\n!ask lssecond");
    assert_eq!(editor.updates("tool_call").len(), 1);
    let done = editor.updates("tool_call_update");
    assert_eq!(done.last().unwrap()["status"], "completed");
    // The session continues.
    let answer = editor.prompt(&session, "third").unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
}

#[test]
fn resuming_shows_nothing_again() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    editor.prompt(&session, "first").unwrap();
    editor.end();
    let mut editor = Editor::open(&machine);
    editor.call("session/resume", at(&machine, &session)).unwrap();
    assert!(editor.received.is_empty(), "{:?}", editor.received);
    editor.prompt(&session, "second").unwrap();
}

#[test]
fn sessions_are_listed_by_directory_with_their_titles() {
    let machine = Machine::new();
    let other = machine.place.root().join("other");
    fs::create_dir(&other).unwrap();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    editor.prompt(&session, "\n  what it is about\nand more").unwrap();
    let [titled] = &*editor.updates("session_info_update") else { panic!() };
    assert_eq!(titled["title"], "what it is about");
    editor.call("session/new", json!({"cwd": other, "mcpServers": []})).unwrap();
    let all = editor.call("session/list", json!({})).unwrap();
    assert_eq!(all["sessions"].as_array().unwrap().len(), 2);
    let here = editor.call("session/list", json!({"cwd": machine.work()})).unwrap();
    let [one] = &**here["sessions"].as_array().unwrap() else { panic!("{here}") };
    assert_eq!((&one["sessionId"], &one["title"]), (&json!(session), &json!("what it is about")));
}

#[test]
fn long_lists_come_in_pages() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let made: Vec<_> = (0..120).map(|_| editor.session(&machine)).collect();
    let mut listed = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = editor.call("session/list", json!({"cursor": cursor})).unwrap();
        let sessions = page["sessions"].as_array().unwrap().iter();
        listed.extend(sessions.map(|one| one["sessionId"].as_str().unwrap().to_owned()));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    listed.reverse();
    assert_eq!(listed, made);
    let odd = editor.call("session/list", json!({"cursor": "odd"}));
    assert_eq!(odd.unwrap_err()["code"], -32602);
}

#[test]
fn a_list_that_ends_with_a_full_page_has_no_cursor() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    for _ in 0..50 {
        editor.session(&machine);
    }
    let page = editor.call("session/list", json!({})).unwrap();
    assert_eq!(page["sessions"].as_array().unwrap().len(), 50);
    assert!(page["nextCursor"].is_null(), "{page}");
}

#[test]
fn a_closed_session_has_no_process_and_can_be_opened_again() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let id = editor.send_prompt(&session, "!words 2\n!hang");
    editor.read_until(|line| line["params"]["update"]["content"]["text"] == "word2");
    let closing = editor.send_request("session/close", &json!({"sessionId": session}));
    assert_eq!(editor.answer(id).unwrap()["stopReason"], "cancelled");
    editor.answer(closing).unwrap();
    assert!(editor.prompt(&session, "hello").is_err());
    editor.call("session/resume", at(&machine, &session)).unwrap();
    editor.prompt(&session, "hello").unwrap();
    editor.call("session/delete", json!({"sessionId": session})).unwrap();
    let gone = editor.call("session/load", at(&machine, &session));
    assert_eq!(gone.unwrap_err()["code"], -32002);
    editor.end();
    until("no agent is left", || agent_processes::agent_pids(&machine).is_empty());
}

#[test]
fn a_session_stays_where_it_was_begun() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let elsewhere = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let error = editor.call("session/load", elsewhere).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("started in"), "{error}");
    for cwd in ["relative", "/no/such/folder"] {
        let new = json!({"cwd": cwd, "mcpServers": []});
        assert_eq!(editor.call("session/new", new).unwrap_err()["code"], -32602);
    }
    let more = json!({"cwd": machine.work(), "mcpServers": [], "additionalDirectories": ["/"]});
    assert_eq!(editor.call("session/new", more).unwrap_err()["code"], -32602);
}

/// One process owns a session at a time; another process names the owner in its error.
#[test]
fn a_session_that_another_process_uses_is_waited_for() {
    let machine = Machine::new();
    let mut first = Editor::open(&machine);
    let session = first.session(&machine);
    let id = first.send_prompt(&session, "!words 1\n!hang");
    first.read_until(|line| line["params"]["update"]["content"]["text"] == "word1");
    let mut second = Editor::open(&machine);
    second.call("session/resume", at(&machine, &session)).unwrap();
    // A prompt that waits for the session can be cancelled.
    let id_2 = second.send_prompt(&session, "me too");
    second.notify("session/cancel", &json!({"sessionId": session}));
    assert_eq!(second.answer(id_2).unwrap()["stopReason"], "cancelled");
    let error = second.prompt(&session, "me too").unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("angelia acp"), "{error}");
    first.notify("session/cancel", &json!({"sessionId": session}));
    first.answer(id).unwrap();
    first.end();
    second.prompt(&session, "now").unwrap();
}
