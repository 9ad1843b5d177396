//! The stream: acknowledgements, and the next socket before the last one is left.

use angelia_testkit::{
    dingtalk_server::{DingTalkServer, StreamLog},
    direct_session::wait_until,
};
use serde_json::json;

use super::{Connected, GROUP, PERSON, adapter};

#[tokio::test]
async fn the_next_socket_is_open_before_the_old_one_is_left() {
    let server = DingTalkServer::start();
    let connected = Connected::start(&server, &adapter(&server, None)).await;
    server.say(PERSON, "one");
    connected.wait_for_events(1).await;
    server.disconnect();
    // The platform does not repeat what comes now; it reaches the next socket.
    server.say(PERSON, "two");
    connected.wait_for_events(2).await;
    let is_closed = |one: &StreamLog| matches!(one, StreamLog::Closed(_));
    wait_until("the old one is left", || server.log().iter().any(is_closed)).await;
    let log = server.log();
    let closed = log.iter().position(is_closed).unwrap();
    let dialled = log[..closed].iter().filter(|one| **one == StreamLog::Dialled).count();
    assert_eq!(dialled, 2, "{log:?}");
    wait_until("all of it is acknowledged", || server.is_all_acknowledged()).await;
}

#[tokio::test]
async fn every_frame_is_answered_as_the_protocol_says() {
    let server = DingTalkServer::start();
    let connected = Connected::start(&server, &adapter(&server, None)).await;
    server.say_in_group(PERSON, GROUP, "hello");
    connected.wait_for_events(1).await;
    server.push_raw(
        r#"{"specVersion":"1.0","type":"SYSTEM","headers":{"topic":"ping","messageId":"p1"},"data":"{\"opaque\":\"x\"}"}"#,
    );
    let find = |id: &str| {
        let answers = server.acknowledgements();
        answers.into_iter().find(|answer| answer["headers"]["messageId"] == id)
    };
    wait_until("the ping is answered", || find("p1").is_some()).await;
    let ping = find("p1").unwrap();
    assert_eq!((&ping["code"], &ping["data"]), (&json!(200), &json!(r#"{"opaque":"x"}"#)));
    assert!(server.is_all_acknowledged());
    let open = server.calls("/v1.0/gateway/connections/open").pop().unwrap();
    let topics: Vec<&str> = open.fields["subscriptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["topic"].as_str().unwrap())
        .collect();
    assert_eq!(topics, ["/v1.0/im/bot/messages/get", "/v1.0/card/instances/callback"]);
    assert!(open.fields["ua"].as_str().unwrap().starts_with("angelia/"));
}
