//! Clients that ask for the fate of their messages, and acknowledge the messages they receive.

use angelia_backends::bus::BusLimits;
use angelia_frontends::bus::ListenerLimits;
use serde_json::json;

use crate::harness::{SocketHarness, message};

#[tokio::test]
async fn a_sender_hears_that_its_message_is_accepted_and_delivered() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_with_ack("r").await;
    let mut sender = stage.connect_with_ack("s").await;
    let accepted = sender.request(message("r", "1")).await;
    assert_eq!(accepted, json!({"type": "accepted", "id": "1"}));
    let mut expected = message("r", "1");
    expected["from"] = json!("s");
    expected["verified"] = json!(false);
    assert_eq!(receiver.expect_frame().await, expected);
    receiver.send(&json!({"type": "ack", "id": "1"})).await.unwrap();
    let delivered = sender.expect_frame().await;
    assert_eq!(delivered, json!({"type": "delivered", "id": "1"}));
}

#[tokio::test]
async fn accepted_says_who_was_there() {
    let stage = SocketHarness::new().await;
    let mut sender = stage.connect_with_ack("s").await;
    let never = sender.request(message("r", "1")).await;
    assert_eq!((&never["queued"], &never["seen"]), (&json!(true), &json!(false)));
    drop(stage.connect_registered("r").await);
    stage.wait_until_listed(&["s"]).await;
    sender.send(&message("r", "2")).await.unwrap();
    let away = sender.expect_frame_of_type("accepted").await;
    assert_eq!((&away["queued"], &away["seen"]), (&json!(true), &json!(null)));
    sender.send(&message("r", "2")).await.unwrap();
    let again = sender.expect_frame_of_type("accepted").await;
    assert_eq!(again["repeated"], true);
}

#[tokio::test]
async fn a_stranger_may_ask_with_its_message() {
    let stage = SocketHarness::new().await;
    let mut sender = stage.connect().await;
    let mut asking = message("r", "1");
    asking["ack"] = json!(true);
    asking["from"] = json!("somebody");
    assert_eq!(sender.request(asking).await["type"], "accepted");
    let mut receiver = stage.connect_with_ack("r").await;
    let got = receiver.expect_frame().await;
    assert_eq!((&got["from"], &got["verified"]), (&json!("somebody"), &json!(false)));
    assert_eq!(got.get("ack"), None, "that was for the bus");
}

#[tokio::test]
async fn a_stranger_may_ask_with_a_ping() {
    let stage = SocketHarness::new().await;
    let mut sender = stage.connect().await;
    assert_eq!(sender.request(json!({"type": "ping"})).await, json!({"type": "pong"}));
    let pong = sender.request(json!({"type": "ping", "ack": true})).await;
    assert_eq!(pong, json!({"type": "pong", "ack": true}));
    assert_eq!(sender.request(message("r", "1")).await["type"], "accepted");
    // A client of hermes-bus that has registered gets what it knows.
    let mut old = stage.connect_registered("old").await;
    assert_eq!(old.request(json!({"type": "ping", "ack": true})).await, json!({"type": "pong"}));
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_with_ack("r").await;
    let mut sender = stage.connect_with_ack("s").await;
    for id in ["1", "2", "3"] {
        sender.send(&message("r", id)).await.unwrap();
        assert_eq!(receiver.expect_frame().await["id"], id);
    }
    receiver.send(&json!({"type": "ack", "ids": ["1", "3"]})).await.unwrap();
    sender.expect_frame_of_type("delivered").await;
    drop(receiver);
    stage.wait_until_listed(&["s"]).await;
    let mut receiver = stage.connect_with_ack("r").await;
    let got = receiver.expect_frame().await;
    assert_eq!((&got["id"], &got["redelivered"]), (&json!("2"), &json!(true)));
    receiver.assert_no_frame().await;
}

#[tokio::test]
async fn rejected_says_why() {
    let limits = BusLimits { max_queued: 1, ..BusLimits::default() };
    let stage = SocketHarness::with_limits(limits, ListenerLimits::default()).await;
    let mut sender = stage.connect_with_ack("s").await;
    sender.request(message("full", "1")).await;
    let full = sender.request(message("full", "2")).await;
    assert_eq!((&full["type"], &full["id"]), (&json!("rejected"), &json!("2")));
    assert_eq!(full["reason"], "full");
    let mut other = message("r", "1");
    assert_eq!(sender.request(other.clone()).await["type"], "accepted");
    other["body"] = json!("another text");
    let reused = sender.request(other).await;
    assert_eq!((&reused["type"], &reused["reason"]), (&json!("rejected"), &json!("id_reused")));
    assert!(full["detail"].as_str().unwrap().contains("full"));
    assert_eq!(sender.request(message(" x", "3")).await["reason"], "invalid_name");
    assert_eq!(sender.request(json!([])).await["reason"], "malformed");
    // A bad frame does not affect later frames.
    assert_eq!(sender.request(message("other", "4")).await["type"], "accepted");
}

#[tokio::test]
async fn what_a_receiver_refuses_is_a_dead_letter_that_can_be_sent_again() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_with_ack("r").await;
    let mut sender = stage.connect().await;
    sender.send(&message("r", "1")).await.unwrap();
    receiver.expect_frame().await;
    let refuse = json!({"type": "refuse", "id": "1", "reason": "no rule"});
    receiver.send(&refuse).await.unwrap();
    assert_eq!(receiver.request(json!({"type": "ping"})).await["type"], "pong");
    let dead = sender.request(json!({"type": "dead_letters"})).await;
    let letter = &dead["letters"][0];
    assert_eq!((&letter["reason"], &letter["to"]), (&json!("no rule"), &json!("r")));
    assert_eq!(letter["message"]["id"], "1");
    let resend = json!({"type": "resend", "position": letter["position"]});
    assert_eq!(sender.request(resend.clone()).await["type"], "accepted");
    assert_eq!(receiver.expect_frame().await["id"], "1");
    assert_eq!(sender.request(resend).await["type"], "rejected");
}

#[tokio::test]
async fn status_counts() {
    let stage = SocketHarness::new().await;
    let mut asking = stage.connect_with_ack("a").await;
    asking.request(message("away", "1")).await;
    let status = asking.request(json!({"type": "status"})).await;
    assert_eq!((&status["accepted"], &status["queued"]), (&json!(1), &json!(1)));
    assert_eq!(status["endpoints"][1]["endpoint"], "away");
    assert_eq!(status["pid"], std::process::id());
}

#[tokio::test]
async fn everything_that_comes_in_is_heard_inside() {
    let stage = SocketHarness::new().await;
    let mut heard = stage.context.message_feed.subscribe();
    let mut sender = stage.connect_with_ack("s").await;
    sender.request(message("r", "1")).await;
    let message = heard.recv().await.unwrap();
    assert_eq!((&*message.id, message.from.as_deref()), ("1", Some("s")));
}
