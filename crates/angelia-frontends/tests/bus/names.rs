//! Endpoint names: claiming, protecting and proving them.

use angelia_testkit::bus_peer::BusPeer;
use serde_json::{Value, json};

use crate::harness::{SocketHarness, message};

fn register(name: &str, more: &Value) -> Value {
    let mut frame = json!({"type": "register", "endpoint": name, "ack": true});
    for (key, value) in more.as_object().unwrap() {
        frame[key] = value.clone();
    }
    frame
}

#[tokio::test]
async fn a_displaced_client_that_asked_is_told() {
    let stage = SocketHarness::new().await;
    let mut first = stage.connect_with_ack("r").await;
    let _second = stage.connect_with_ack("r").await;
    let displaced = json!({"type": "displaced", "endpoint": "r"});
    assert_eq!(first.expect_frame().await, displaced);
    first.assert_closed().await;
}

#[tokio::test]
async fn the_daemon_chooses_the_suffix() {
    let stage = SocketHarness::new().await;
    let mut held: Vec<BusPeer> = Vec::new();
    for expected in ["r", "r-2", "r-3"] {
        let mut peer = stage.connect().await;
        let reply = peer.request(register("r", &json!({"prefix": true}))).await;
        assert_eq!(reply["endpoint"], expected);
        held.push(peer);
    }
    let mut sender = stage.connect().await;
    sender.send(&message("r-2", "1")).await.unwrap();
    assert_eq!(held[1].expect_frame().await["id"], "1");
}

#[tokio::test]
async fn a_token_protects_a_name_and_proves_it() {
    let stage = SocketHarness::new().await;
    let mut owner = stage.connect().await;
    owner.request(register("r", &json!({"token": "secret"}))).await;
    let mut thief = stage.connect().await;
    let reply = thief.request(register("r", &json!({"token": "guess"}))).await;
    assert_eq!((&reply["type"], &reply["reason"]), (&json!("rejected"), &json!("wrong_token")));
    thief.assert_closed().await;
    // Old clients get the refusal as an error that they know.
    let mut old = stage.connect().await;
    let reply = old.request(json!({"type": "register", "endpoint": "r"})).await;
    assert_eq!(reply["type"], "error");

    let mut sender = stage.connect().await;
    for (token, is_verified) in [("secret", json!(null)), ("guess", json!(false))] {
        let mut sent = message("r", token);
        sent["from"] = json!("r");
        sent["token"] = json!(token);
        sender.send(&sent).await.unwrap();
        let got = owner.expect_frame().await;
        assert_eq!(got["verified"], is_verified);
        assert_eq!(got["token"], json!(null), "a secret stays one");
    }
}

#[tokio::test]
async fn nobody_can_claim_to_be_verified() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_with_ack("r").await;
    let mut sender = stage.connect().await;
    let mut sent = message("r", "1");
    sent["verified"] = json!(true);
    sent["redelivered"] = json!(true);
    sent["from"] = json!("owner");
    sender.send(&sent).await.unwrap();
    let got = receiver.expect_frame().await;
    assert_eq!((&got["verified"], &got["redelivered"]), (&json!(false), &json!(false)));
}

#[tokio::test]
async fn a_name_that_is_none_is_refused() {
    let stage = SocketHarness::new().await;
    for name in ["", " x", "a\u{7}b"] {
        let mut peer = stage.connect().await;
        let reply = peer.request(register(name, &json!({}))).await;
        assert_eq!(reply["reason"], "invalid_name", "{name:?}");
        peer.assert_closed().await;
    }
}

#[tokio::test]
async fn the_durable_hear_what_was_said_to_everyone() {
    let stage = SocketHarness::new().await;
    let mut durable = stage.connect().await;
    durable.request(register("d", &json!({"durable": true}))).await;
    drop(durable);
    stage.wait_until_listed(&[]).await;
    let mut sender = stage.connect().await;
    sender.send(&message("", "1")).await.unwrap();
    // Frames are handled in order: when this one is answered, the other has been queued.
    assert_eq!(sender.request(json!({"type": "ping"})).await["type"], "pong");
    let mut durable = stage.connect_with_ack("d").await;
    assert_eq!(durable.expect_frame().await["id"], "1");
}

#[tokio::test]
async fn a_registered_name_is_verified_only_by_its_token() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_with_ack("r").await;
    let mut proven = stage.connect().await;
    proven.request(register("p", &json!({"token": "secret"}))).await;
    let mut plain = stage.connect_with_ack("q").await;
    for (sender, expected) in [(&mut proven, json!(null)), (&mut plain, json!(false))] {
        let mut sent = message("r", "");
        sent["verified"] = json!(true);
        sent.as_object_mut().unwrap().remove("id");
        sender.request(sent).await;
        let got = receiver.expect_frame().await;
        // The sender's own value is corrected; a proven sender needs no remark.
        let said =
            if got["verified"] == json!(true) { json!(null) } else { got["verified"].clone() };
        assert_eq!(said, expected, "{got}");
    }
}

#[tokio::test]
async fn a_token_is_set_only_on_a_name_that_nobody_has_used() {
    let stage = SocketHarness::new().await;
    drop(stage.connect_registered("used").await);
    stage.wait_until_listed(&[]).await;
    let mut thief = stage.connect().await;
    let reply = thief.request(register("used", &json!({"token": "mine"}))).await;
    assert_eq!(reply["reason"], "token_too_late", "{reply}");
    thief.assert_closed().await;
    // The name still belongs to whoever used it.
    drop(stage.connect_registered("used").await);
    // A client that proves a protected name gets it again.
    for _ in 0..2 {
        let mut owner = stage.connect().await;
        let reply = owner.request(register("fresh", &json!({"token": "mine"}))).await;
        assert_eq!(reply["type"], "registered", "{reply}");
    }
}

#[tokio::test]
async fn nobody_displaces_or_locks_out_the_host() {
    use angelia_core::{
        model::EndpointName,
        ports::bus::{AttachRequest, Claimant},
    };
    let stage = SocketHarness::new().await;
    // Another client has protected the name before the daemon comes.
    let mut early = stage.connect().await;
    early.request(register("angelia", &json!({"token": "mine"}))).await;
    let host = || AttachRequest {
        claimant: Claimant::Host,
        ..AttachRequest::new(EndpointName::new("angelia").unwrap())
    };
    let mut inbox = stage.bus.attach(host()).await.unwrap();
    assert_eq!(early.expect_frame().await["type"], "displaced");
    for more in [json!({}), json!({"token": "mine"})] {
        let mut late = stage.connect().await;
        let reply = late.request(register("angelia", &more)).await;
        assert_eq!(reply["reason"], "taken", "{more}");
        late.assert_closed().await;
    }
    // A client of hermes-bus learns it too, and one that asks gets another name.
    let mut old = stage.connect().await;
    let reply = old.request(json!({"type": "register", "endpoint": "angelia"})).await;
    assert_eq!((&reply["type"], &reply["code"]), (&json!("error"), &json!("taken")));
    let mut polite = stage.connect().await;
    let reply = polite.request(register("angelia", &json!({"prefix": true}))).await;
    assert_eq!(reply["endpoint"], "angelia-2");
    let mut sender = stage.connect().await;
    let mut sent = message("angelia", "1");
    sent["ack"] = json!(true);
    assert_eq!(sender.request(sent).await["type"], "accepted");
    assert_eq!(&*inbox.next(1).await.unwrap()[0].message.id, "1");
    // The old token proves nothing any more.
    assert!(!stage.bus.verify_token("angelia", "mine"));
}
