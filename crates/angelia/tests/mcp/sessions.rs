//! Recorded sessions, as the tools show them.

use serde_json::json;

use crate::{
    client::{self, call},
    machine::{Machine, until},
};

#[test]
fn the_owner_sees_every_session_page_by_page() {
    let machine = Machine::new();
    for words in ["first", "second", "third"] {
        machine.angelia(&["run", words]).assert_code(0);
    }
    let list = call("sessions_list", &json!({"limit": 2}));
    let answers = client::run(&machine, &[], &[list, call("sessions_list", &json!({}))]);
    let page = answers[0].json();
    let ids = |page: &serde_json::Value| -> Vec<String> {
        let sessions = page["sessions"].as_array().unwrap().iter();
        sessions.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = ids(&answers[1].json());
    assert_eq!(all.len(), 3);
    assert_eq!(ids(&page), all[..2]);
    let rest = json!({"limit": 2, "before": page["next"]});
    let show = json!({"session": all[0]});
    let steps = [
        call("sessions_list", &rest),
        call("sessions_show", &show),
        call("sessions_show", &json!({"session": "nonsense"})),
        call("sessions_list", &json!({"before": "nonsense"})),
    ];
    let answers = client::run(&machine, &[], &steps);
    assert_eq!(ids(&answers[0].json()), all[2..]);
    assert!(answers[0].json()["next"].is_null());
    let shown = answers[1].json();
    assert_eq!(shown["session"]["executor"], "parrot");
    assert_eq!(shown["turns"][0]["input"], "third");
    assert_eq!(shown["turns"][0]["status"], "completed");
    answers[2].assert_tool_error("there is no session `nonsense`");
    answers[3].assert_tool_error("not a cursor of the list");
}

#[test]
fn a_long_answer_is_shown_in_pieces() {
    let machine = Machine::new();
    machine.angelia(&["run", "!words 20000"]).assert_code(0);
    let turn = machine.list("turns").remove(0);
    let (session, id) = (&turn["session_id"], &turn["id"]);
    let whole = turn["text"].as_str().unwrap();
    let short = client::run(&machine, &[], &[call("sessions_show", &json!({"session": session}))]);
    let text = short[0].json()["turns"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.ends_with("bytes more") && text.len() < 3_000, "{text}");
    let mut offset = json!(0);
    let mut read = String::new();
    while !offset.is_null() {
        let show = json!({"session": session, "turn": id, "offset": offset});
        let piece = client::run(&machine, &[], &[call("sessions_show", &show)]);
        let piece = piece[0].json();
        read.push_str(piece["text"].as_str().unwrap());
        offset = piece["next_offset"].clone();
    }
    assert!(read == whole, "{} of {}", read.len(), whole.len());
}

#[test]
fn approvals_are_shown_and_cannot_be_decided() {
    let machine = Machine::new();
    machine.configure(
        "profiles:\n  default: {executor: parrot, delegate_to: [helper]}\n  helper: {executor: parrot}\n",
    );
    let _serving = machine.serve();
    let asks = json!({
        "call": "delegate",
        "with": {"profile": "helper", "task": "!ask rm everything"},
    });
    // With a daemon the owner can decide, so the approval waits there.
    let client = client::start(&machine, &[], &[asks]);
    until("it is asked", || !machine.list("approvals").is_empty());
    let pending = client::run(&machine, &[], &[call("approvals_pending", &json!({}))]);
    let pending = pending[0].json();
    let approval = &pending["approvals"][0];
    assert!(
        approval["detail"].as_str().unwrap().contains("rm everything")
            || approval["title"].as_str().unwrap().contains("rm everything"),
        "{pending}"
    );
    let id = approval["id"].as_str().unwrap();
    machine.angelia(&["approvals", "approve", id]).assert_code(0);
    let ran = client.wait();
    assert!(ran.stdout.contains("waits for the owner"), "{ran:?}");
    assert!(ran.stdout.contains(": completed]"), "{ran:?}");
}
