//! Forks: a session that continues from the state of another one.

use serde_json::{Value, json};

use crate::{editor::Editor, machine::Machine};

fn at(machine: &Machine, session: &str) -> Value {
    json!({"sessionId": session, "cwd": machine.work(), "mcpServers": []})
}

#[track_caller]
fn fork(editor: &mut Editor, machine: &Machine, session: &str) -> String {
    let forked = editor.call("session/fork", at(machine, session)).unwrap();
    forked["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn a_fork_is_a_session_of_its_own_with_what_was_said_before() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let mode = json!({"sessionId": session, "modeId": "edit"});
    editor.call("session/set_mode", mode).unwrap();
    editor.prompt(&session, "first").unwrap();
    editor.received.clear();
    let forked = editor.call("session/fork", at(&machine, &session)).unwrap();
    assert_eq!(forked["modes"]["currentModeId"], "edit");
    let forked = forked["sessionId"].as_str().unwrap().to_owned();
    // The editor has shown the earlier messages already, so they are not replayed.
    assert!(editor.received.is_empty(), "{:?}", editor.received);
    editor.prompt(&forked, "on the fork").unwrap();
    editor.prompt(&session, "beside it").unwrap();
    editor.end();

    let mut editor = Editor::open(&machine);
    for (session, said) in [(&forked, "firston the fork"), (&session, "firstbeside it")] {
        editor.received.clear();
        editor.call("session/load", at(&machine, session)).unwrap();
        assert_eq!(editor.update_text("user_message_chunk"), said);
    }
}

/// A session can also be forked if the editor has not opened it.
#[test]
fn any_known_session_can_be_forked() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let empty = editor.session(&machine);
    let once = fork(&mut editor, &machine, &empty);
    editor.prompt(&once, "hello").unwrap();
    editor.end();
    let mut editor = Editor::open(&machine);
    let twice = fork(&mut editor, &machine, &once);
    editor.prompt(&twice, "again").unwrap();
    editor.received.clear();
    editor.call("session/load", at(&machine, &twice)).unwrap();
    assert_eq!(editor.update_text("user_message_chunk"), "helloagain");
}

#[test]
fn what_cannot_be_forked_is_refused() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let elsewhere = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let mut more = at(&machine, &session);
    more["additionalDirectories"] = json!(["/"]);
    let mut odd = at(&machine, &session);
    odd["mcpServers"] = json!([7]);
    for params in [elsewhere, more, odd] {
        let error = editor.call("session/fork", params).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
    for unknown in ["0198c0de-0000-7000-8000-000000000000", "odd"] {
        let error = editor.call("session/fork", at(&machine, unknown));
        assert_eq!(error.unwrap_err()["code"], -32002, "{unknown}");
    }
    let id = editor.send_prompt(&session, "!words 1\n!hang");
    editor.read_until(|line| line["params"]["update"]["content"]["text"] == "word1");
    let error = editor.call("session/fork", at(&machine, &session)).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("a prompt is running"), "{error}");
    editor.notify("session/cancel", &json!({"sessionId": session}));
    editor.answer(id).unwrap();
    let all = editor.call("session/list", json!({})).unwrap();
    assert_eq!(all["sessions"].as_array().unwrap().len(), 1, "{all}");
}

/// Forking is not advertised for an agent that cannot copy its conversation.
#[test]
fn forking_is_offered_where_the_agent_can() {
    let machine = Machine::new();
    machine.configure(
        "profiles: {mine: {executor: parrot}, other: {executor: acp, command: [/bin/false]}}\n",
    );
    for (profile, can) in [("mine", json!({})), ("other", Value::Null)] {
        let mut editor = Editor::start(&machine, &["-p", profile]);
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let hello = editor.call("initialize", hello).unwrap();
        let sessions = &hello["agentCapabilities"]["sessionCapabilities"];
        assert_eq!(sessions["fork"], can, "{profile}");
    }
}
