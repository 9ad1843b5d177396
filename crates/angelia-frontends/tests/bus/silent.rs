//! Clients that ask for no answers, like those of hermes-bus.

use std::time::Duration;

use angelia_backends::bus::BusLimits;
use angelia_frontends::bus::ListenerLimits;
use angelia_testkit::bus_peer::encode_frames;
use serde_json::json;

use crate::harness::{SocketHarness, message};

#[tokio::test]
async fn success_is_silence() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_registered("r").await;
    let mut sender = stage.connect().await;
    sender.send(&message("r", "1")).await.unwrap();
    assert_eq!(receiver.expect_frame().await, message("r", "1"));
    sender.assert_no_frame().await;
}

#[tokio::test]
async fn what_is_said_before_hanging_up_counts() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_registered("r").await;
    for id in 0..50 {
        let mut sender = stage.connect().await;
        sender.send(&message("r", &id.to_string())).await.unwrap();
    }
    let mut heard: Vec<u32> = Vec::new();
    for _ in 0..50 {
        heard.push(receiver.expect_frame().await["id"].as_str().unwrap().parse().unwrap());
    }
    heard.sort_unstable();
    assert_eq!(heard, (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_a_receiver_left_unread_comes_again() {
    let stage = SocketHarness::new().await;
    let receiver = stage.connect_registered("r").await;
    let mut sender = stage.connect_with_ack("s").await;
    sender.send(&message("r", "1")).await.unwrap();
    sender.expect_frame_of_type("delivered").await;
    // The message has been written to the socket, but not read.
    drop(receiver);
    stage.wait_until_listed(&["s"]).await;
    let mut receiver = stage.connect_registered("r").await;
    assert_eq!(receiver.expect_frame().await["id"], "1");
}

#[tokio::test]
async fn what_a_receiver_has_read_does_not_come_again() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_registered("r").await;
    let mut sender = stage.connect().await;
    sender.send(&message("r", "1")).await.unwrap();
    receiver.expect_frame().await;
    drop(receiver);
    stage.wait_until_listed(&[]).await;
    let mut receiver = stage.connect_registered("r").await;
    receiver.assert_no_frame().await;
    assert_eq!(stage.bus.counts().queued, 0);
}

#[tokio::test]
async fn what_has_settled_is_done_with_while_the_receiver_stays() {
    let limits =
        ListenerLimits { settle_delay: Duration::from_millis(50), ..ListenerLimits::default() };
    let stage = SocketHarness::with_limits(BusLimits::default(), limits).await;
    let mut receiver = stage.connect_registered("r").await;
    let mut sender = stage.connect().await;
    sender.send(&message("r", "1")).await.unwrap();
    receiver.expect_frame().await;
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while stage.bus.counts().queued > 0 {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_queued_is_an_error_that_old_clients_know() {
    let limits = BusLimits { max_queued: 1, ..BusLimits::default() };
    let stage = SocketHarness::with_limits(limits, ListenerLimits::default()).await;
    let senders = [stage.connect().await, stage.connect_registered("s").await];
    for (mut sender, to) in senders.into_iter().zip(["a", "b"]) {
        sender.send(&message(to, "1")).await.unwrap();
        let reply = sender.request(message(to, "2")).await;
        assert_eq!(reply["type"], "error");
        assert_eq!(reply["code"], "endpoint_not_found");
        assert_eq!(reply["id"], "2");
        let reply = sender.request(message("bad\nname", "3")).await;
        assert_eq!((&reply["code"], &reply["id"]), (&json!("endpoint_not_found"), &json!("3")));
        // The connection stays open.
        assert_eq!(sender.request(json!({"type": "ping"})).await["type"], "pong");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_silent_for_too_long_is_removed() {
    let limits =
        ListenerLimits { silence_timeout: Duration::from_millis(300), ..ListenerLimits::default() };
    let stage = SocketHarness::with_limits(BusLimits::default(), limits).await;
    let mut quiet = stage.connect_registered("quiet").await;
    let mut pinging = stage.connect_registered("pinging").await;
    let ping = async {
        loop {
            pinging.request(json!({"type": "ping"})).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = ping => {}
        () = quiet.assert_closed() => {}
    }
    stage.wait_until_listed(&["pinging"]).await;
}

#[tokio::test]
async fn many_frames_in_one_write_are_many_frames() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_registered("r").await;
    let mut sender = stage.connect().await;
    let frames: Vec<_> = (0..2000).map(|n| message("r", &n.to_string())).collect();
    let bytes = encode_frames(&frames);
    // The bytes are split anywhere.
    let send = async {
        for part in bytes.chunks(997) {
            sender.send_bytes(part).await.unwrap();
        }
    };
    let hear = async {
        for frame in &frames {
            assert_eq!(&receiver.expect_frame().await, frame);
        }
    };
    tokio::join!(send, hear);
}

#[tokio::test]
async fn the_largest_frame_passes_and_a_larger_one_ends_the_connection() {
    const LIMIT: usize = 10 * 1024 * 1024;
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_registered("r").await;
    let filled = |size: usize| {
        let mut frame = message("r", "1");
        let empty = encode_frames([&frame]).len() - 4;
        frame["body"] = json!({"text": "1", "x": "x".repeat(size - empty - 9)});
        let bytes = encode_frames([&frame]);
        assert_eq!(bytes.len() - 4, size);
        bytes
    };
    let bytes = filled(LIMIT);
    let mut sender = stage.connect().await;
    let (sent, heard) = tokio::join!(sender.send_bytes(&bytes), receiver.expect_frame());
    sent.unwrap();
    assert_eq!(encode_frames([&heard]), bytes);
    let mut sender = stage.connect().await;
    // The daemon may close the connection while the client still sends.
    let _closed = sender.send_bytes(&filled(LIMIT + 1)).await;
    sender.assert_closed().await;
    receiver.assert_no_frame().await;
}

#[tokio::test]
async fn what_would_be_too_large_with_what_is_added_is_refused_alone() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_registered("r").await;
    let mut sender = stage.connect().await;
    let frame =
        json!({"type": "message", "to": "r", "id": "1", "body": "x".repeat(10 * 1024 * 1024 - 60)});
    let bytes = encode_frames([&frame]);
    assert!(bytes.len() - 4 <= 10 * 1024 * 1024);
    sender.send_bytes(&bytes).await.unwrap();
    let reply = sender.expect_frame().await;
    assert_eq!((&reply["type"], &reply["id"]), (&json!("error"), &json!("1")));
    sender.send(&message("r", "2")).await.unwrap();
    assert_eq!(receiver.expect_frame().await["id"], "2");
}
