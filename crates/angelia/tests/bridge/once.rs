//! `--once`: one request, whose outcome becomes the exit code.

use serde_json::json;

use crate::{
    host::{Host, assert_error, assert_final, of_type, run_request, types},
    machine::Machine,
};

#[test]
fn b19_once_serves_one_request_and_exits() {
    let machine = Machine::new();
    for (prompt, status, code) in
        [("hello", "completed", 0), ("!fail auth", "failed", 77), ("!fail server", "failed", 69)]
    {
        let mut host = Host::start(&machine, &["--once"]);
        host.send(&run_request("r", "s", prompt));
        assert_final(&host.read_until_type("final"), status);
        // Stdin is still open; the bridge does not wait for its end.
        let end = host.wait_for_exit();
        assert_eq!(end.code, Some(code), "{prompt}: {end:?}");
        assert!(end.events.is_empty());
    }
}

#[test]
fn b19_once_finishes_its_run_though_input_has_ended() {
    let machine = Machine::new();
    let line = format!("{}\n", run_request("r", "s", "!words 20 10"));
    let ran = machine.angelia_with_input(&["bridge", "--once"], line.as_bytes());
    ran.assert_code(0).assert_stdout("word20").assert_stdout(r#""status":"completed""#);
    assert_eq!(ran.stderr, "");
    // Without `--once`, the end of input ends the bridge.
    let line = format!("{}\n", run_request("r", "s", "!words 20\n!hang"));
    let ran = machine.angelia_with_input(&["bridge"], line.as_bytes());
    ran.assert_code(0).assert_stdout(r#""status":"interrupted""#);
}

#[test]
fn b19_once_has_nobody_to_ask_when_input_has_ended() {
    let machine = Machine::new();
    let line = format!("{}\n", run_request("r", "s", "!ask rm x"));
    let ran = machine.angelia_with_input(&["bridge", "--once"], line.as_bytes());
    ran.assert_code(0).assert_stdout("You refused `rm x`").assert_stdout(r#""by":"nobody""#);
    // A host that is still connected is asked for approval.
    let mut host = Host::start(&machine, &["--once"]);
    host.send(&run_request("r", "s", "!ask rm x"));
    let asked = host.read_until_type("approval_requested").pop().unwrap();
    host.send(&json!({"type": "ping"}));
    assert_eq!(host.next()["type"], "pong");
    host.send(&run_request("r2", "s2", "another"));
    assert_eq!(host.next()["code"], "only_once");
    let id = &asked["approval_id"];
    host.send(&json!({"type": "approve", "approval_id": id, "verdict": "once"}));
    let events = host.read_until_type("final");
    assert_eq!(of_type(&events, "approval_resolved")[0]["verdict"], "once");
    assert_eq!(host.wait_for_exit().code, Some(0));
}

#[test]
fn b19_once_takes_what_is_no_run_for_its_request_too() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--once"]);
    host.send(&json!({"type": "ping"}));
    let end = host.wait_for_exit();
    assert_eq!((end.code, types(&end.events)), (Some(0), vec!["pong"]));
    let mut host = Host::start(&machine, &["--once"]);
    host.write(b"nonsense\n");
    let end = host.wait_for_exit();
    assert_eq!(end.code, Some(1));
    assert_error(&end.events, "bad_json");
    let mut host = Host::start(&machine, &["--once"]);
    host.send(&json!({"type": "run", "request_id": "r", "session_id": "s", "message": "hello",
        "profile": "nobody"}));
    let end = host.wait_for_exit();
    assert_eq!(end.code, Some(1));
    assert_error(&end.events, "invalid");
}
