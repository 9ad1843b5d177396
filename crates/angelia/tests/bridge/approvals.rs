//! Approvals and questions, answered over the protocol.

use serde_json::{Value, json};

use crate::{
    host::{Host, assert_final, of_type, run_request},
    machine::Machine,
};

fn next_approval_request(host: &mut Host) -> Value {
    host.read_until_type("approval_requested").pop().unwrap()
}

#[test]
fn every_verdict_has_its_effect() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    for (verdict, status, says) in [
        ("once", "completed", "You allowed `rm x`"),
        ("session", "completed", "You allowed `rm x`"),
        ("deny", "completed", "You refused `rm x`: not that one"),
        ("stop", "interrupted", ""),
    ] {
        host.send(&run_request(verdict, verdict, "!ask rm x"));
        let asked = next_approval_request(&mut host);
        assert_eq!(asked["kind"], "tool");
        assert_eq!(asked["tool"], "Bash");
        assert_eq!(asked["choices"], json!(["once", "session", "always", "deny", "stop"]));
        assert!(asked["detail"].is_string() && asked["expires_at"].is_string());
        host.send(&json!({"type": "approve", "approval_id": asked["approval_id"],
            "verdict": verdict, "note": "not that one"}));
        let events = host.read_until_type("final");
        let resolved = of_type(&events, "approval_resolved")[0];
        assert_eq!(resolved["verdict"], verdict);
        assert_eq!(resolved["approval_id"], asked["approval_id"]);
        let end = assert_final(&events, status);
        assert!(end["response"].as_str().unwrap().contains(says), "{end}");
    }
    // A tool that was allowed for the session is not asked about again.
    let events = host.run("r", "session", "!ask rm x");
    assert_final(&events, "completed");
    assert!(of_type(&events, "approval_requested").is_empty());
    host.shut_down();
}

#[test]
fn a_question_is_answered_by_its_text() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    host.send(&run_request("r", "s", "!question"));
    let asked = next_approval_request(&mut host);
    assert_eq!(asked["kind"], "question");
    let question = asked["questions"][0]["text"].as_str().unwrap();
    host.send(&json!({"type": "approve", "approval_id": asked["approval_id"],
        "verdict": "once", "answers": {question: "Blue"}}));
    let events = host.read_until_type("final");
    let end = assert_final(&events, "completed");
    assert!(end["response"].as_str().unwrap().contains("Blue"), "{end}");
    host.shut_down();
}

#[test]
fn only_what_is_asked_here_can_be_decided_and_only_once() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let nobody = "01890000-0000-7000-8000-000000000000";
    host.send(&json!({"type": "approve", "approval_id": nobody, "verdict": "once",
        "request_id": "a"}));
    let error = host.next();
    assert_eq!(error["code"], "unknown_approval");
    assert_eq!(error["request_id"], "a");
    host.send(&run_request("r", "s", "!ask rm x"));
    let asked = next_approval_request(&mut host);
    for verdict in ["deny", "once"] {
        host.send(&json!({"type": "approve", "approval_id": asked["approval_id"],
            "verdict": verdict, "request_id": verdict}));
    }
    let events = host.read_until_type("final");
    let errors = of_type(&events, "error");
    let late = |event: &Value| {
        assert_eq!(event["code"], "unknown_approval");
        assert_eq!(event["request_id"], "once");
    };
    match errors.first() {
        Some(error) => late(error),
        // The resolution may arrive after the end of the run.
        None => late(&host.next()),
    }
    assert_eq!(of_type(&events, "approval_resolved")[0]["verdict"], "deny");
    host.shut_down();
}

#[test]
fn what_the_owner_decides_elsewhere_is_told() {
    let machine = Machine::new();
    let serving = machine.serve();
    let mut host = Host::start(&machine, &[]);
    host.send(&run_request("r", "s", "!ask rm x"));
    let asked = next_approval_request(&mut host);
    let id = asked["approval_id"].as_str().unwrap();
    machine.angelia(&["approvals", "approve", id]).assert_code(0);
    let events = host.read_until_type("final");
    let resolved = of_type(&events, "approval_resolved")[0];
    assert_eq!(resolved["by"], "owner");
    assert_final(&events, "completed");
    host.shut_down();
    serving.stop().assert_code(0);
}
