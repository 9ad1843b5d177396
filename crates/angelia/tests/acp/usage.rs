//! The usage in the answer to a prompt, and the context size where the agent reports it.

use serde_json::{Value, json};

use angelia_testkit::{
    model_server::{ReplyUsage, directive::tool_call_directive},
    real::RealClaude,
};

use crate::{editor::Editor, libraries::LibraryFixture, machine::Machine};

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
    // The parrot does not report its context size, so no update is sent.
    assert!(editor.updates("usage_update").is_empty());
}

#[test]
fn what_was_stopped_has_used_something_too() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let id = editor.send_prompt(&session, "!tool Read\n!words 2\n!hang");
    editor.read_until(|line| line["params"]["update"]["content"]["text"] == "word2");
    editor.notify("session/cancel", &json!({"sessionId": session}));
    let answer = editor.answer(id).unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    assert!(total(&answer["usage"]) > 0, "{answer}");
}

#[test]
fn what_failed_says_so_in_its_error() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let error = editor.prompt(&session, "!tool Read\n!fail server").unwrap_err();
    assert!(total(&error["data"]["usage"]) > 0, "{error}");
    // A prompt that never started has used nothing.
    let params = json!({"sessionId": session, "prompt": []});
    let error = editor.call("session/prompt", params).unwrap_err();
    assert!(error["data"].is_null(), "{error}");
}

fn total(usage: &Value) -> u64 {
    usage["totalTokens"].as_u64().unwrap_or_default()
}

/// Two prompts, the second of which asks the model twice; then the session is opened again.
fn the_editor_is_told_how_full_the_context_is(claude: &RealClaude) {
    let bench = LibraryFixture::new(claude);
    let file = bench.machine.work().join("notes");
    std::fs::write(&file, "hello").unwrap();
    bench.server.set_usage(ReplyUsage {
        input: 7,
        output: 5,
        cache_read: 4321,
        cache_write_5m: 30,
        cache_write_1h: 4,
    });
    let mut editor = Editor::open(&bench.machine);
    let session = editor.session(&bench.machine);
    let read = json!({"file_path": file});
    let mut spent = 0.0;
    for prompt in ["ECHO:hello".to_owned(), tool_call_directive("Read", &read)] {
        editor.received.clear();
        let answer = editor.prompt(&session, &prompt).unwrap();
        spent += answer["_meta"]["angelia"]["costUsd"].as_f64().unwrap();
        // The update comes before the answer and covers one request, also where the prompt took
        // two.
        assert_eq!(editor.updates("usage_update"), [&full(spent)], "{prompt}");
    }
    assert!(spent > 0.0);
    editor.received.clear();
    let again = json!({"sessionId": session, "cwd": bench.machine.work(), "mcpServers": []});
    editor.call("session/load", again).unwrap();
    assert_eq!(editor.updates("usage_update").last(), Some(&&full(spent)));
}

fn full(spent: f64) -> Value {
    json!({"sessionUpdate": "usage_update", "used": 4367, "size": 1_000_000,
        "cost": {"amount": spent, "currency": "USD"}})
}

mod real_newest {
    use super::*;

    #[test]
    fn the_context_is_metered() {
        the_editor_is_told_how_full_the_context_is(&RealClaude::newest().unwrap());
    }
}

mod real_oldest {
    use super::*;

    #[test]
    fn the_context_is_metered() {
        the_editor_is_told_how_full_the_context_is(&RealClaude::oldest().unwrap());
    }
}
