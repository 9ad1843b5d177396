//! The end of `angelia acp`: the editor closes the pipes, or a signal stops it.

use std::{
    io::{Read as _, Write as _},
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    agent_processes,
    editor::Editor,
    machine::{ANGELIA, Machine, until},
};

#[test]
fn the_end_of_the_input_is_an_orderly_end() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine);
    let session = editor.session(&machine);
    let id = editor.send_prompt(&session, "!words 2\n!hang");
    editor.read_until(|line| line["params"]["update"]["content"]["text"] == "word2");
    let (rest, code) = editor.end();
    assert_eq!(code, Some(0));
    let answer = rest.iter().find(|line| line["id"] == id).unwrap();
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert!(agent_processes::agent_pids(&machine).is_empty());
    let turns = machine.list("turns");
    assert_eq!(turns[0]["status"], "interrupted");
}

/// Every request is answered, also when the input has ended.
#[test]
fn what_was_asked_before_the_end_is_answered() {
    let machine = Machine::new();
    let hello =
        r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":1}}"#;
    let ran = machine.angelia_with_input(&["acp"], format!("{hello}\n").as_bytes());
    ran.assert_code(0).assert_stdout(r#""id":"a""#).assert_stdout("protocolVersion");
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_signal_is_an_orderly_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let machine = Machine::new();
        let mut editor = Editor::open(&machine);
        let session = editor.session(&machine);
        editor.send_prompt(&session, "!words 2\n!hang");
        editor.read_until(|line| line["params"]["update"]["content"]["text"] == "word2");
        let pid = Pid::from_raw(editor.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let status = editor.child.wait().unwrap();
        assert_eq!(status.code(), Some(130));
        assert!(agent_processes::agent_pids(&machine).is_empty());
    }
}

#[test]
fn an_editor_that_is_killed_leaves_nothing_behind() {
    let machine = Machine::new();
    let mut command = machine.program(ANGELIA);
    command.arg("acp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let new = json!({"jsonrpc": "2.0", "id": 0, "method": "session/new",
        "params": {"cwd": machine.work(), "mcpServers": []}});
    writeln!(stdin, "{new}").unwrap();
    let mut answer = [0; 4096];
    let count = stdout.read(&mut answer).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer[..count]).unwrap();
    let prompt = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt",
        "params": {"sessionId": answer["result"]["sessionId"],
            "prompt": [{"type": "text", "text": "!words 1000000 1"}]}});
    writeln!(stdin, "{prompt}").unwrap();
    // The editor closes the output while the input stays open.
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    until("no agent is left", || agent_processes::agent_pids(&machine).is_empty());
    drop(stdin);
}
