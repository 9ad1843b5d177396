//! The bus tools (D46, D47, D50).

use angelia_testkit::bus_peer::BusPeer;
use serde_json::{Value, json};

use crate::{
    client::{self, call},
    machine::Machine,
};

fn machine() -> Machine {
    let mut machine = Machine::new();
    machine.set("HERMES_BUS_ROOT", machine.place.root().join("hermes"));
    machine
}

async fn register_listener(machine: &Machine, name: &str) -> BusPeer {
    let socket = machine.place.root().join("hermes/hermes-bus.sock");
    let mut peer = BusPeer::connect_with_retry(&socket).await;
    let register = json!({"type": "register", "endpoint": name, "ack": true});
    let reply = peer.request(register).await;
    assert_eq!(reply["type"], "registered", "{reply}");
    peer
}

fn send(target: &str, text: &str) -> Value {
    let with = json!({"target": target, "type": "note", "text": text, "channel": "x:1"});
    call("bus_send", &with)
}

/// D46: the text is passed on unchanged, also where it looks like an option.
#[tokio::test(flavor = "multi_thread")]
async fn d46_a_message_arrives_word_for_word() {
    let machine = machine();
    let _serving = machine.serve();
    let mut peer = register_listener(&machine, "worker").await;
    let texts = ["--help", "-x {TEXT} $HOME `id`", "two\nlines\t\u{1f600}"];
    let long = "y".repeat(1 << 20);
    let mut steps: Vec<Value> = texts.iter().map(|text| send("worker", text)).collect();
    steps.push(send("worker", &long));
    let run = || client::run(&machine, &[], &steps);
    let answers = tokio::task::block_in_place(run);
    for (answer, text) in answers.iter().zip(texts.iter().copied().chain([&*long])) {
        let said = answer.assert_success();
        assert!(said.contains("worker"), "{said}");
        let message = peer.expect_frame().await;
        assert!(message["body"]["text"] == *text, "{text:.40}");
        assert_eq!(message["body"]["type"], "note");
        assert_eq!(message["body"]["channel"], "x:1");
        assert_eq!(message["verified"], false);
        peer.send(&json!({"type": "ack", "id": message["id"]})).await.unwrap();
    }
}

#[test]
fn d46_a_message_nobody_waits_for_is_queued_and_a_wrong_one_refused() {
    let machine = machine();
    let _serving = machine.serve();
    let steps = [
        send("nobody-yet", "hello"),
        send(" spaced ", "hello"),
        call("bus_send", &json!({"target": "a", "text": "no type"})),
        call("bus_send", &json!({"target": "a", "type": "", "text": "x"})),
    ];
    let answers = client::run(&machine, &[], &steps);
    let said = answers[0].assert_success();
    assert!(said.contains("nobody has ever listened"), "{said}");
    answers[1].assert_tool_error("cannot begin or end with a blank");
    answers[2].assert_tool_error("missing field `type`");
    answers[3].assert_tool_error("type:");
}

/// D47: health, endpoints, and the caller's own endpoint and session.
#[tokio::test(flavor = "multi_thread")]
async fn d47_status_and_info() {
    let mut machine = machine();
    let _serving = machine.serve();
    let _peer = register_listener(&machine, "worker").await;
    machine.set("HERMES_BUS_ENDPOINT", "worker");
    let steps = [
        call("bus_status", &json!({})),
        call("bus_info", &json!({})),
        call("bus_info", &json!({"x": 1})),
    ];
    let run = || client::run(&machine, &[], &steps);
    let answers = tokio::task::block_in_place(run);
    let status = answers[0].json();
    assert_eq!(status["running"], true);
    let endpoints = status["endpoints"].as_array().unwrap();
    assert!(endpoints.iter().any(|one| one["endpoint"] == "worker"));
    let info = answers[1].json();
    assert_eq!(info["endpoint"], "worker");
    assert_eq!(info["sends_as"], "worker");
    assert_eq!(info["bus_running"], true);
    assert_eq!(info["endpoint_listening"], true);
    assert!(info["session_id"].is_null());
    answers[2].assert_tool_error("unknown field");
}

/// D50: without a bus everything else works, and the bus tools say so.
#[test]
fn d50_no_bus_is_an_answer() {
    let machine = machine();
    let steps = [
        call("bus_status", &json!({})),
        call("bus_info", &json!({})),
        send("a", "b"),
        call("sessions_list", &json!({})),
    ];
    let answers = client::run(&machine, &[], &steps);
    assert_eq!(answers[0].json()["running"], false);
    assert_eq!(answers[1].json()["bus_running"], false);
    answers[2].assert_tool_error("angelia bus start");
    assert_eq!(answers[3].json()["sessions"], json!([]));
}
