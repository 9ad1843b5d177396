//! What a prompt used, in its answer.

use serde_json::{Value, json};

use crate::{editor::Editor, stage::Machine};

/// The parrot counts words.
#[test]
fn every_answer_tells_what_its_own_turn_used() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    for (words, used) in [(3, 5), (50, 52), (3, 5)] {
        let answer = editor.prompt(&session, &format!("!words {words}")).unwrap();
        let usage = json!({"totalTokens": used, "inputTokens": 2, "outputTokens": words,
            "cachedReadTokens": 0, "cachedWriteTokens": 0});
        assert_eq!(answer["usage"], usage);
        assert_eq!(answer["_meta"]["angelia"]["costUsd"], 0.0);
    }
    // How full the context is nobody tells, so nobody is told.
    assert!(editor.updates("usage_update").is_empty());
}

#[test]
fn what_was_stopped_has_used_something_too() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let id = editor.ask_prompt(&session, "!tool Read\n!words 2\n!hang");
    editor.until(|line| line["params"]["update"]["content"]["text"] == "word2");
    editor.tell("session/cancel", &json!({"sessionId": session}));
    let answer = editor.answer(id).unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    assert!(total(&answer["usage"]) > 0, "{answer}");
}

#[test]
fn what_failed_says_so_in_its_error() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let error = editor
        .prompt(&session, "!tool Read\n!fail server")
        .unwrap_err();
    assert!(total(&error["data"]["usage"]) > 0, "{error}");
    // Whatever never began used nothing.
    let params = json!({"sessionId": session, "prompt": []});
    let error = editor.call("session/prompt", params).unwrap_err();
    assert!(error["data"].is_null(), "{error}");
}

fn total(usage: &Value) -> u64 {
    usage["totalTokens"].as_u64().unwrap_or_default()
}
