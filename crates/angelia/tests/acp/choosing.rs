//! Choosing modes and models.

use serde_json::{Value, json};

use crate::{editor::Editor, machine::Machine};

fn current<'a>(options: &'a Value, id: &str) -> &'a Value {
    let options = options["configOptions"].as_array().unwrap();
    &options.iter().find(|option| option["id"] == id).unwrap()["currentValue"]
}

#[test]
fn a_mode_is_how_much_may_be_done_unasked() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let mode = |mode: &str| json!({"sessionId": session, "modeId": mode});
    editor.call("session/set_mode", mode("unattended")).unwrap();
    let [told] = &*editor.updates("config_option_update") else { panic!() };
    assert_eq!(current(told, "mode"), "unattended");
    editor.prompt(&session, "!ask ls").unwrap();
    assert!(editor.update_text("agent_message_chunk").contains("You allowed"));
    let odd = editor.call("session/set_mode", mode("bypass")).unwrap_err();
    assert_eq!(odd["code"], -32602);
    // Back in the first mode, the user is asked again.
    let option = json!({"sessionId": session, "configId": "mode", "value": "ask"});
    let options = editor.call("session/set_config_option", option).unwrap();
    assert_eq!(current(&options, "mode"), "ask");
    let [told] = &*editor.updates("current_mode_update") else { panic!() };
    assert_eq!(told["currentModeId"], "ask");
    editor.permission_choice = "reject_once";
    editor.prompt(&session, "!ask ls").unwrap();
    assert!(editor.update_text("agent_message_chunk").contains("You refused"));
}

/// A mode can also be chosen while a turn runs.
#[test]
fn a_mode_counts_at_once() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let id = editor.send_prompt(&session, "!ask first\n!ask second");
    let asked = editor.read_until(|line| line["method"] == "session/request_permission");
    let mode = json!({"sessionId": session, "modeId": "unattended"});
    editor.call("session/set_mode", mode).unwrap();
    editor.answer_permission(&asked, "allow_once");
    editor.answer(id).unwrap();
    let words = editor.update_text("agent_message_chunk");
    assert!(words.contains("You allowed `second`"), "{words}");
}

#[test]
fn a_mode_outlives_the_process() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let mode = json!({"sessionId": session, "modeId": "edit"});
    editor.call("session/set_mode", mode).unwrap();
    editor.end();
    let mut editor = Editor::open(&machine);
    let at = json!({"sessionId": session, "cwd": machine.work(), "mcpServers": []});
    let loaded = editor.call("session/resume", at).unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "edit");
}

#[test]
fn a_model_is_taken_from_the_next_prompt_on() {
    let machine = Machine::new();
    let mut editor = Editor::open_with(&machine, &["--model", "first"], &json!({}));
    let session = editor.session(&machine);
    editor.prompt(&session, "!who").unwrap();
    assert!(editor.update_text("agent_message_chunk").contains("model first"));
    let option = json!({"sessionId": session, "configId": "model", "value": "second"});
    let options = editor.call("session/set_config_option", option).unwrap();
    assert_eq!(current(&options, "model"), "second");
    editor.prompt(&session, "!who").unwrap();
    assert!(editor.update_text("agent_message_chunk").contains("model second"));
    for (id, value) in [("model", json!("")), ("model", json!(true)), ("speed", json!("fast"))] {
        let mut option = json!({"sessionId": session, "configId": id, "value": value});
        if value.is_boolean() {
            option["type"] = json!("boolean");
        }
        let error = editor.call("session/set_config_option", option).unwrap_err();
        assert_eq!(error["code"], -32602, "{id} {value}");
    }
}

#[test]
fn a_profile_is_named_at_the_start() {
    let machine = Machine::new();
    machine.configure("profiles: {mine: {executor: parrot, permissions: edit}}\n");
    let mut editor = Editor::open_with(&machine, &["-p", "mine"], &json!({}));
    let new = json!({"cwd": machine.work(), "mcpServers": []});
    let new = editor.call("session/new", new).unwrap();
    assert_eq!(new["modes"]["currentModeId"], "edit");
    editor.end();
    let mut editor = Editor::open_with(&machine, &["-p", "yours"], &json!({}));
    let new = json!({"cwd": machine.work(), "mcpServers": []});
    let error = editor.call("session/new", new).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("yours"), "{error}");
}
