//! A peer that does not read, or does not stop sending, does not affect the others. The recorded
//! hermes-bus stops for everyone in these cases (fixtures 10 and 12).

use std::time::Duration;

use angelia_backends::bus::BusLimits;
use angelia_frontends::bus::ListenerLimits;
use angelia_testkit::bus_peer::encode_frames;
use serde_json::json;

use crate::harness::{SocketHarness, message};

const FLOOD: usize = 5000;

#[tokio::test]
async fn a_receiver_that_does_not_read_stops_nobody() {
    let limits = BusLimits { max_queued: 1000, ..BusLimits::default() };
    let stage = SocketHarness::with_limits(limits, ListenerLimits::default()).await;
    let _stalled = stage.connect_registered("stalled").await;
    let mut healthy = stage.connect_registered("healthy").await;
    let mut sender = stage.connect_with_ack("s").await;
    let mut large = message("stalled", "1");
    large["body"] = json!("x".repeat(4096));
    let mut refused = 0;
    for number in 0..FLOOD {
        large["id"] = json!(number.to_string());
        sender.send(&large).await.unwrap();
        let answer = loop {
            let answer = sender.expect_frame().await;
            if answer["type"] != "delivered" {
                break answer;
            }
        };
        refused += usize::from(answer["type"] == "rejected");
    }
    assert!(refused > 0, "its queue has an end");
    sender.send(&message("healthy", "h1")).await.unwrap();
    assert_eq!(healthy.expect_frame().await["id"], "h1");
    let mut probe = stage.connect().await;
    let list = probe.request(json!({"type": "list_endpoints"})).await;
    assert_eq!(list["endpoints"].as_object().unwrap().len(), 3);
}

#[tokio::test]
async fn a_sender_that_does_not_read_its_errors_stops_only_itself() {
    let stage = SocketHarness::new().await;
    let mut healthy = stage.connect_registered("healthy").await;
    let mut hostile = stage.connect().await;
    let errors = encode_frames(&vec![message("bad\nname", "e"); 1000]);
    let flood = async {
        loop {
            if hostile.send_bytes(&errors).await.is_err() {
                break;
            }
        }
    };
    let stalled = tokio::time::timeout(Duration::from_secs(1), flood).await;
    assert!(stalled.is_err(), "it is not listened to any more");
    let mut probe = stage.connect().await;
    probe.send(&message("healthy", "h1")).await.unwrap();
    assert_eq!(healthy.expect_frame().await["id"], "h1");
    assert_eq!(probe.request(json!({"type": "ping"})).await["type"], "pong");
}

#[tokio::test]
async fn a_frame_that_never_ends_costs_nobody_anything() {
    let stage = SocketHarness::new().await;
    let mut held = Vec::new();
    for _ in 0..100 {
        let mut slow = stage.connect().await;
        slow.send_bytes(&[0, 0x9f, 0xff, 0xff, b'{']).await.unwrap();
        held.push(slow);
    }
    let mut healthy = stage.connect_registered("healthy").await;
    let mut sender = stage.connect().await;
    sender.send(&message("healthy", "1")).await.unwrap();
    assert_eq!(healthy.expect_frame().await["id"], "1");
}

#[tokio::test]
async fn two_who_flood_each_other_both_go_on() {
    let stage = SocketHarness::new().await;
    let names = ["a", "b"];
    let mut tasks = tokio::task::JoinSet::new();
    for (me, other) in [(0, 1), (1, 0)] {
        let mut peer = stage.connect_registered(names[me]).await;
        let frames: Vec<_> = (0..FLOOD).map(|n| message(names[other], &n.to_string())).collect();
        tasks.spawn(async move {
            let bytes = encode_frames(&frames);
            let mut heard = 0;
            for part in bytes.chunks(bytes.len() / 50) {
                peer.send_bytes(part).await.unwrap();
                while heard < FLOOD {
                    let next = tokio::time::timeout(Duration::from_millis(1), peer.next_frame());
                    let Ok(frame) = next.await else { break };
                    assert_eq!(frame.unwrap().unwrap()["id"], heard.to_string());
                    heard += 1;
                }
            }
            while heard < FLOOD {
                assert_eq!(peer.expect_frame().await["id"], heard.to_string());
                heard += 1;
            }
        });
    }
    tasks.join_all().await;
}
