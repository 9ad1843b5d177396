//! The bridge uses the daemon of its home when there is one, and a host notices nothing.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    checklist::conversation,
    host::{
        Host, NATIVE, assert_error, assert_final, joined_text, of_type, response, run_request,
        run_request_with, types,
    },
    machine::{Machine, until},
};

#[test]
fn a_session_is_the_same_with_and_without_it() {
    let machine = Machine::new();
    let turn = |flags: &[&str]| {
        let mut host = Host::start(&machine, flags);
        let events = host.run("r", "s", "!who");
        assert_final(&events, "completed");
        host.shut_down();
        conversation(&events)
    };
    let first = turn(&[]);
    let serving = machine.serve();
    assert_eq!(turn(&[]), first);
    assert_eq!(turn(&NATIVE), first);
    serving.stop().assert_code(0);
    assert_eq!(turn(&[]), first);
    assert_eq!(machine.list("sessions").len(), 1);
}

#[test]
fn a_host_is_told_the_same() {
    let machine = Machine::new();
    let serving = machine.serve();
    let prompt = "!words 3\n!tool Read\nlast";
    for flags in [&NATIVE[..], &["--assistant-delta"], &[]] {
        let told = |session: &str, flags: &[&str]| {
            let mut host = Host::start(&machine, flags);
            let events = host.run("r", session, prompt);
            host.shut_down();
            assert_final(&events, "completed");
            let deltas = joined_text(&events, "assistant_delta");
            let kinds: Vec<_> = types(&events).into_iter().map(str::to_owned).collect();
            (kinds, deltas)
        };
        // With a flag that the daemon does not support, the bridge runs on its own.
        let alone = [flags, &["--max-iterations", "50"]].concat();
        assert_eq!(told("there", flags), told("here", &alone));
    }
    serving.stop().assert_code(0);
}

#[test]
fn everything_works_through_it() {
    let machine = Machine::new();
    let serving = machine.serve();
    let mut host = Host::start(&machine, &[]);
    // Approvals.
    host.send(&run_request("r", "s", "!ask rm x"));
    let asked = host.read_until_type("approval_requested").pop().unwrap();
    let id = &asked["approval_id"];
    host.send(&json!({"type": "approve", "approval_id": id, "verdict": "deny", "note": "no"}));
    let events = host.read_until_type("final");
    assert_eq!(of_type(&events, "approval_resolved")[0]["verdict"], "deny");
    assert!(response(&events).contains("You refused `rm x`: no"), "{events:?}");
    // Interrupts.
    host.send(&run_request("r", "s", "!hang"));
    host.read_until_type("run_started");
    host.send(&json!({"type": "interrupt", "session_id": "s"}));
    let events = host.read_until_type("final");
    assert_eq!(events[0]["type"], "interrupt_ack");
    assert_final(&events, "interrupted");
    // Keys, and the guard.
    let key = json!({"idempotency_key": "k"});
    let first = host.run_with("r1", "s", "!who", key.clone());
    let again = host.run_with("r2", "s", "!who", key.clone());
    assert_eq!(again[0]["turn_id"], first[0]["turn_id"]);
    assert_eq!(again[0]["repeats"], true);
    assert_error(&host.run_with("r3", "s", "other", key), "key_reused");
    assert_error(&host.run_with("r4", "s", "hi", json!({"model": "another"})), "session_differs");
    assert_error(&host.run_with("r5", "new", "hi", json!({"profile": "nobody"})), "invalid");
    host.send(&run_request_with("r6", "s", "!hang", json!({})));
    host.read_until_type("run_started");
    host.send(&run_request("r7", "s", "hello"));
    assert_eq!(host.next()["code"], "session_busy");
    // The end of the bridge does not end the daemon.
    let end = host.shut_down();
    assert_eq!(types(&end.events), ["final", "shutdown_ack"]);
    assert_eq!(end.events[0]["status"], "interrupted");
    assert_eq!(machine.list("turns").len(), 4);
    serving.stop().assert_code(0);
}

#[test]
fn what_a_killed_bridge_ran_does_not_go_on_in_it() {
    let machine = Machine::new();
    let serving = machine.serve();
    let mut host = Host::start(&machine, &[]);
    host.send(&run_request("r", "s", "said\n!tool Wait\n!hang"));
    host.read_until_type("tool_finished");
    host.signal(Signal::KILL);
    drop(host);
    until("the daemon has ended the turn", || machine.list("turns")[0]["status"] == "interrupted");
    serving.stop().assert_code(0);
}

#[test]
fn a_daemon_that_goes_away_ends_the_run_with_the_text_so_far() {
    let machine = Machine::new();
    let serving = machine.serve();
    let mut host = Host::start(&machine, &NATIVE);
    host.send(&run_request("r", "s", "!words 3\n!hang"));
    let mut events = host.read_until(|event| {
        event["type"] == "assistant_delta" && event["text"].as_str().unwrap().contains("word3")
    });
    serving.kill();
    events.extend(host.read_until_type("final"));
    let shown = joined_text(&events, "assistant_delta");
    assert!(shown.contains("word1 word2 word3"), "{events:#?}");
    let end = assert_final(&events, "failed");
    assert_eq!(end["response"], shown.as_str(), "{end}");
    assert!(end["error"]["message"].as_str().unwrap().contains("daemon"), "{end}");
    assert_eq!(joined_text(&events, "assistant_message"), shown, "{events:#?}");
    host.shut_down();
}

#[test]
fn a_bridge_whose_daemon_has_stopped_works_on_by_itself() {
    let machine = Machine::new();
    let serving = machine.serve();
    let mut host = Host::start(&machine, &[]);
    let first = host.run("r1", "s", "hello");
    assert_final(&first, "completed");
    let pid = serving.running.pid();
    serving.stop().assert_code(0);
    let second = host.run("r2", "s", "again");
    assert_final(&second, "completed");
    assert!(response(&second).contains("again"), "{second:#?}");
    // The same session, in the bridge's own process; the next run says no more about it.
    let session = |events: &[Value]| events[0]["angelia_session_id"].clone();
    assert_eq!(session(&first), session(&second));
    assert_final(&host.run("r3", "s", "and again"), "completed");
    let end = host.shut_down();
    assert_eq!(end.stderr.matches("working without it").count(), 1, "{end:#?} (daemon {pid})");
    assert!(end.stderr.contains("angelia serve"), "{end:#?}");
}
