//! Clients that ask for the fate of their messages, and acknowledge the messages they receive.

use angelia_backends::bus::BusLimits;
use angelia_frontends::bus::DoorLimits;
use serde_json::json;

use crate::stage::{Stage, message};

#[tokio::test]
async fn a_sender_hears_that_its_message_is_accepted_and_delivered() {
    let stage = Stage::new().await;
    let mut receiver = stage.asking("r").await;
    let mut sender = stage.asking("s").await;
    let accepted = sender.ask(message("r", "1")).await;
    assert_eq!(accepted, json!({"type": "accepted", "id": "1"}));
    let mut expected = message("r", "1");
    expected["from"] = json!("s");
    assert_eq!(receiver.hear().await, expected);
    receiver.send(&json!({"type": "ack", "id": "1"})).await.unwrap();
    let delivered = sender.hear().await;
    assert_eq!(delivered, json!({"type": "delivered", "id": "1"}));
}

#[tokio::test]
async fn accepted_says_who_was_there() {
    let stage = Stage::new().await;
    let mut sender = stage.asking("s").await;
    let never = sender.ask(message("r", "1")).await;
    assert_eq!((&never["queued"], &never["seen"]), (&json!(true), &json!(false)));
    drop(stage.registered("r").await);
    stage.until_listed(&["s"]).await;
    sender.send(&message("r", "2")).await.unwrap();
    let away = sender.hear_of("accepted").await;
    assert_eq!((&away["queued"], &away["seen"]), (&json!(true), &json!(null)));
    sender.send(&message("r", "2")).await.unwrap();
    let again = sender.hear_of("accepted").await;
    assert_eq!(again["repeated"], true);
}

#[tokio::test]
async fn a_stranger_may_ask_with_its_message() {
    let stage = Stage::new().await;
    let mut sender = stage.connect().await;
    let mut asking = message("r", "1");
    asking["ack"] = json!(true);
    asking["from"] = json!("somebody");
    assert_eq!(sender.ask(asking).await["type"], "accepted");
    let mut receiver = stage.asking("r").await;
    let got = receiver.hear().await;
    assert_eq!((&got["from"], &got["verified"]), (&json!("somebody"), &json!(false)));
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again() {
    let stage = Stage::new().await;
    let mut receiver = stage.asking("r").await;
    let mut sender = stage.asking("s").await;
    for id in ["1", "2", "3"] {
        sender.send(&message("r", id)).await.unwrap();
        assert_eq!(receiver.hear().await["id"], id);
    }
    receiver.send(&json!({"type": "ack", "ids": ["1", "3"]})).await.unwrap();
    sender.hear_of("delivered").await;
    drop(receiver);
    stage.until_listed(&["s"]).await;
    let mut receiver = stage.asking("r").await;
    let got = receiver.hear().await;
    assert_eq!((&got["id"], &got["redelivered"]), (&json!("2"), &json!(true)));
    receiver.hears_nothing().await;
}

#[tokio::test]
async fn rejected_says_why() {
    let limits = BusLimits { max_queued: 1, ..BusLimits::default() };
    let stage = Stage::with(limits, DoorLimits::default()).await;
    let mut sender = stage.asking("s").await;
    sender.ask(message("full", "1")).await;
    let full = sender.ask(message("full", "2")).await;
    assert_eq!((&full["type"], &full["id"]), (&json!("rejected"), &json!("2")));
    assert_eq!(full["reason"], "full");
    assert!(full["detail"].as_str().unwrap().contains("full"));
    assert_eq!(sender.ask(message(" x", "3")).await["reason"], "invalid_name");
    assert_eq!(sender.ask(json!([])).await["reason"], "malformed");
    // A bad frame does not affect later frames.
    assert_eq!(sender.ask(message("other", "4")).await["type"], "accepted");
}

#[tokio::test]
async fn what_a_receiver_refuses_is_a_dead_letter_that_can_be_sent_again() {
    let stage = Stage::new().await;
    let mut receiver = stage.asking("r").await;
    let mut sender = stage.connect().await;
    sender.send(&message("r", "1")).await.unwrap();
    receiver.hear().await;
    let refuse = json!({"type": "refuse", "id": "1", "reason": "no rule"});
    receiver.send(&refuse).await.unwrap();
    assert_eq!(receiver.ask(json!({"type": "ping"})).await["type"], "pong");
    let dead = sender.ask(json!({"type": "dead_letters"})).await;
    let letter = &dead["letters"][0];
    assert_eq!((&letter["reason"], &letter["to"]), (&json!("no rule"), &json!("r")));
    assert_eq!(letter["message"]["id"], "1");
    let resend = json!({"type": "resend", "position": letter["position"]});
    assert_eq!(sender.ask(resend.clone()).await["type"], "accepted");
    assert_eq!(receiver.hear().await["id"], "1");
    assert_eq!(sender.ask(resend).await["type"], "rejected");
}

#[tokio::test]
async fn status_counts() {
    let stage = Stage::new().await;
    let mut asking = stage.asking("a").await;
    asking.ask(message("away", "1")).await;
    let status = asking.ask(json!({"type": "status"})).await;
    assert_eq!((&status["accepted"], &status["queued"]), (&json!(1), &json!(1)));
    assert_eq!(status["endpoints"][1]["endpoint"], "away");
    assert_eq!(status["pid"], std::process::id());
}

#[tokio::test]
async fn everything_that_comes_in_is_heard_inside() {
    let stage = Stage::new().await;
    let mut heard = stage.door.heard.subscribe();
    let mut sender = stage.asking("s").await;
    sender.ask(message("r", "1")).await;
    let message = heard.recv().await.unwrap();
    assert_eq!((&*message.id, message.from.as_deref()), ("1", Some("s")));
}
