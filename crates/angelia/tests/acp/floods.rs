//! Floods and invalid input: clear errors, nothing lost, bounded memory.

use angelia_testkit::benchmark::process_usage;
use serde_json::{Value, json};

use crate::{
    editor::Editor,
    machine::{Machine, until},
};

/// No line is longer than every client can read.
#[test]
fn a_megabyte_goes_in_and_comes_back() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let text = "wörd \u{1}".repeat(150_000);
    editor.prompt(&session, &text).unwrap();
    let at = json!({"sessionId": session, "cwd": machine.work(), "mcpServers": []});
    editor.call("session/load", at).unwrap();
    assert!(editor.update_text("user_message_chunk") == text, "not as it was said");
    let longest = editor.received.iter().map(|line| line.to_string().len()).max();
    assert!(longest.unwrap() < 64 * 1024, "{longest:?} bytes");
}

#[test]
fn fifty_megabytes_of_an_answer_come_whole() {
    let machine = Machine::with_shell();
    let binary = angelia_testkit::programs::fake_cli().unwrap();
    machine.configure(&format!(
        "profiles: {{default: {{executor: claude, warm: 0, binary: {}, env: {{ANTHROPIC_API_KEY: dummy}}}}}}\n",
        binary.display()
    ));
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let answer = editor.prompt(&session, "BIG:50000000").unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(editor.update_text("agent_message_chunk").len(), 50_000_000);
}

#[test]
fn nonsense_is_answered_and_what_follows_is_served() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    for (line, code) in [
        (&b"{"[..], -32700),
        (b"not json", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\xff\"}", -32700),
        (b"[]", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}]", -32600),
        (b"7", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"initialize\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\"}", -32600),
    ] {
        editor.write_bytes(&[line, b"\n"].concat());
        let answer = editor.next();
        assert_eq!(answer["id"], Value::Null, "{answer}");
        assert_eq!(answer["error"]["code"], code, "{}", String::from_utf8_lossy(line));
    }
    let unknown = editor.call("session/steer", json!({})).unwrap_err();
    assert_eq!(unknown["code"], -32601);
    let odd = editor.call("session/new", json!({"cwd": 7})).unwrap_err();
    assert_eq!(odd["code"], -32602);
    let stranger = editor.prompt("no-session", "x").unwrap_err();
    assert_eq!(stranger["code"], -32002);
    // Notifications, and answers without a request, get no answer.
    editor.notify("$/whatever", &json!({}));
    editor.notify("session/cancel", &json!({"sessionId": "no-session"}));
    editor.write_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\n\r\n");
    let session = editor.session(&machine);
    editor.prompt(&session, "still there").unwrap();
}

#[test]
fn a_line_that_is_cut_off_is_an_error_and_an_end() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    editor.write_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/li");
    let (rest, code) = editor.end();
    assert_eq!((rest[0]["error"]["code"].as_i64(), code), (Some(-32700), Some(0)));
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..65 {
        editor.write_bytes(&piece);
    }
    editor.write_bytes(b"\n");
    let answer = editor.next();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    editor.session(&machine);
}

/// Many requests are written at once before anything is read; every one is answered.
#[test]
fn a_thousand_requests_at_once_are_a_thousand_answers() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let mut lines = String::new();
    let mut ids = Vec::new();
    for number in 0..1000 {
        let (id, line) = match number % 4 {
            0 => editor.request_line("session/list", &json!({})),
            1 => editor
                .request_line("session/new", &json!({"cwd": machine.work(), "mcpServers": []})),
            2 => editor.request_line("session/prompt", &json!({"sessionId": "none", "prompt": []})),
            _ => editor
                .request_line("session/set_mode", &json!({"sessionId": session, "modeId": "edit"})),
        };
        ids.push(id);
        lines.push_str(&line);
    }
    editor.write_bytes(lines.as_bytes());
    for id in ids {
        let refused = editor.answer(id).is_err();
        assert_eq!(refused, (id - 2) % 4 == 2, "{id}");
    }
}

#[test]
fn a_session_has_one_prompt_at_a_time() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let first = editor.send_prompt(&session, "!words 1\n!hang");
    editor.read_until(|line| line["params"]["update"]["content"]["text"] == "word1");
    let second = editor.prompt(&session, "me too").unwrap_err();
    assert_eq!(second["code"], -32600);
    let at = json!({"sessionId": session, "cwd": machine.work(), "mcpServers": []});
    assert!(editor.call("session/load", at).is_err());
    editor.notify("session/cancel", &json!({"sessionId": session}));
    editor.answer(first).unwrap();
}

#[test]
fn sessions_run_beside_each_other() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let sessions: Vec<_> = (0..8).map(|_| editor.session(&machine)).collect();
    let hanging = editor.send_prompt(&sessions[0], "!hang");
    let ids: Vec<_> =
        sessions[1..].iter().map(|session| editor.send_prompt(session, "!words 50 1")).collect();
    for id in ids {
        assert_eq!(editor.answer(id).unwrap()["stopReason"], "end_turn");
    }
    for session in &sessions[1..] {
        let theirs =
            editor.received.iter().filter(|line| line["params"]["sessionId"] == json!(session));
        let words: String = theirs
            .filter_map(|line| line["params"]["update"]["content"]["text"].as_str())
            .collect();
        assert!(words.ends_with("word50"), "{words}");
    }
    editor.notify("session/cancel", &json!({"sessionId": sessions[0]}));
    editor.answer(hanging).unwrap();
}

/// With an editor that does not read, the agent continues, the record is complete, and the editor
/// gets everything once it reads.
#[test]
fn an_editor_that_does_not_read_stalls_nobody() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let stopped = editor.pause();
    let id = editor.send_prompt(&session, "!words 100000");
    // The turn has ended for other viewers while the editor has read none of it.
    until("the turn is over", || {
        let turns = machine.list("turns");
        turns.first().is_some_and(|turn| turn["status"] == "completed")
    });
    let memory = process_usage::resident_kilobytes(editor.child.id()).unwrap();
    assert!(memory < 200 * 1024, "{memory} KiB");
    drop(stopped);
    editor.answer(id).unwrap();
    let words = editor.update_text("agent_message_chunk");
    assert_eq!(words.split_whitespace().count(), 100_000);
}
