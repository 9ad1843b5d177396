//! Logging in: the agent's own program does it; `authenticate` only checks the result.

use serde_json::json;

use crate::{editor::Editor, machine::Machine};

#[test]
fn whoever_is_logged_in_is_told_so() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let login = json!({"methodId": "agent-login"});
    editor.call("authenticate", login).unwrap();
}

#[test]
fn another_way_to_log_in_is_refused_with_what_to_do() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    for odd in [json!({"methodId": "oauth"}), json!({"methodId": ""})] {
        let error = editor.call("authenticate", odd).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
        let message = error["message"].as_str().unwrap();
        for part in ["angelia doctor", "agent-login"] {
            assert!(message.contains(part), "{message}");
        }
    }
    for odd in [json!({}), json!({"methodId": 7})] {
        let error = editor.call("authenticate", odd).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
    // The refused attempts do not affect the session.
    let session = editor.session(&machine);
    editor.prompt(&session, "hello").unwrap();
}
