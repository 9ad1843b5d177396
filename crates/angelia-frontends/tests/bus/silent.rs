//! Clients that ask for no answers, like those of hermes-bus.

use std::time::Duration;

use angelia_backends::bus::BusLimits;
use angelia_frontends::bus::DoorLimits;
use angelia_testkit::bus_peer::encoded;
use serde_json::json;

use crate::stage::{Stage, message};

#[tokio::test]
async fn success_is_silence() {
    let stage = Stage::new().await;
    let mut receiver = stage.registered("r").await;
    let mut sender = stage.connect().await;
    sender.send(&message("r", "1")).await.unwrap();
    assert_eq!(receiver.hear().await, message("r", "1"));
    sender.hears_nothing().await;
}

#[tokio::test]
async fn what_is_said_before_hanging_up_counts() {
    let stage = Stage::new().await;
    let mut receiver = stage.registered("r").await;
    for id in 0..50 {
        let mut sender = stage.connect().await;
        sender.send(&message("r", &id.to_string())).await.unwrap();
    }
    let mut heard: Vec<u32> = Vec::new();
    for _ in 0..50 {
        heard.push(receiver.hear().await["id"].as_str().unwrap().parse().unwrap());
    }
    heard.sort_unstable();
    assert_eq!(heard, (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_a_receiver_left_unread_comes_again() {
    let stage = Stage::new().await;
    let receiver = stage.registered("r").await;
    let mut sender = stage.asking("s").await;
    sender.send(&message("r", "1")).await.unwrap();
    sender.hear_of("delivered").await;
    // The message has been written to the socket, but not read.
    drop(receiver);
    stage.until_listed(&["s"]).await;
    let mut receiver = stage.registered("r").await;
    assert_eq!(receiver.hear().await["id"], "1");
}

#[tokio::test]
async fn what_a_receiver_has_read_does_not_come_again() {
    let stage = Stage::new().await;
    let mut receiver = stage.registered("r").await;
    let mut sender = stage.connect().await;
    sender.send(&message("r", "1")).await.unwrap();
    receiver.hear().await;
    drop(receiver);
    stage.until_listed(&[]).await;
    let mut receiver = stage.registered("r").await;
    receiver.hears_nothing().await;
    assert_eq!(stage.bus.counts().queued, 0);
}

#[tokio::test]
async fn what_has_settled_is_done_with_while_the_receiver_stays() {
    let limits = DoorLimits { settle: Duration::from_millis(50), ..DoorLimits::default() };
    let stage = Stage::with(BusLimits::default(), limits).await;
    let mut receiver = stage.registered("r").await;
    let mut sender = stage.connect().await;
    sender.send(&message("r", "1")).await.unwrap();
    receiver.hear().await;
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while stage.bus.counts().queued > 0 {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_queued_is_an_error_that_old_clients_know() {
    let limits = BusLimits { max_queued: 1, ..BusLimits::default() };
    let stage = Stage::with(limits, DoorLimits::default()).await;
    let senders = [stage.connect().await, stage.registered("s").await];
    for (mut sender, to) in senders.into_iter().zip(["a", "b"]) {
        sender.send(&message(to, "1")).await.unwrap();
        let reply = sender.ask(message(to, "2")).await;
        assert_eq!(reply["type"], "error");
        assert_eq!(reply["code"], "endpoint_not_found");
        assert_eq!(reply["id"], "2");
        let reply = sender.ask(message("bad\nname", "3")).await;
        assert_eq!((&reply["code"], &reply["id"]), (&json!("endpoint_not_found"), &json!("3")));
        // The connection stays open.
        assert_eq!(sender.ask(json!({"type": "ping"})).await["type"], "pong");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_silent_for_too_long_is_removed() {
    let limits = DoorLimits { silence: Duration::from_millis(300), ..DoorLimits::default() };
    let stage = Stage::with(BusLimits::default(), limits).await;
    let mut quiet = stage.registered("quiet").await;
    let mut pinging = stage.registered("pinging").await;
    let ping = async {
        loop {
            pinging.ask(json!({"type": "ping"})).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = ping => {}
        () = quiet.is_closed() => {}
    }
    stage.until_listed(&["pinging"]).await;
}

#[tokio::test]
async fn many_frames_in_one_write_are_many_frames() {
    let stage = Stage::new().await;
    let mut receiver = stage.registered("r").await;
    let mut sender = stage.connect().await;
    let frames: Vec<_> = (0..2000).map(|n| message("r", &n.to_string())).collect();
    let bytes = encoded(&frames);
    // The bytes are split anywhere.
    let send = async {
        for part in bytes.chunks(997) {
            sender.send_bytes(part).await.unwrap();
        }
    };
    let hear = async {
        for frame in &frames {
            assert_eq!(&receiver.hear().await, frame);
        }
    };
    tokio::join!(send, hear);
}

#[tokio::test]
async fn the_largest_frame_passes_and_a_larger_one_ends_the_connection() {
    const LIMIT: usize = 10 * 1024 * 1024;
    let stage = Stage::new().await;
    let mut receiver = stage.registered("r").await;
    let filled = |size: usize| {
        let mut frame = message("r", "1");
        let empty = encoded([&frame]).len() - 4;
        frame["body"] = json!({"text": "1", "x": "x".repeat(size - empty - 9)});
        let bytes = encoded([&frame]);
        assert_eq!(bytes.len() - 4, size);
        bytes
    };
    let bytes = filled(LIMIT);
    let mut sender = stage.connect().await;
    let (sent, heard) = tokio::join!(sender.send_bytes(&bytes), receiver.hear());
    sent.unwrap();
    assert_eq!(encoded([&heard]), bytes);
    let mut sender = stage.connect().await;
    // The daemon may close the connection while the client still sends.
    let _closed = sender.send_bytes(&filled(LIMIT + 1)).await;
    sender.is_closed().await;
    receiver.hears_nothing().await;
}

#[tokio::test]
async fn what_would_be_too_large_with_what_is_added_is_refused_alone() {
    let stage = Stage::new().await;
    let mut receiver = stage.registered("r").await;
    let mut sender = stage.connect().await;
    let frame =
        json!({"type": "message", "to": "r", "id": "1", "body": "x".repeat(10 * 1024 * 1024 - 60)});
    let bytes = encoded([&frame]);
    assert!(bytes.len() - 4 <= 10 * 1024 * 1024);
    sender.send_bytes(&bytes).await.unwrap();
    let reply = sender.hear().await;
    assert_eq!((&reply["type"], &reply["id"]), (&json!("error"), &json!("1")));
    sender.send(&message("r", "2")).await.unwrap();
    assert_eq!(receiver.hear().await["id"], "2");
}
