//! A bus that stops still takes what its clients have sent.

use std::{io::Write as _, os::unix::net::UnixStream, time::Duration};

use angelia_testkit::bus_peer::encode_frames;
use serde_json::json;

use crate::harness::{SocketHarness, message};

const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn what_was_written_is_sent_even_if_the_bus_had_not_accepted_its_client() {
    let stage = SocketHarness::new().await;
    // The test's thread is the bus's thread too: it accepts and reads nothing until the next await.
    let mut clients: Vec<UnixStream> = Vec::new();
    for client in 0..20 {
        let mut stream = UnixStream::connect(&stage.socket).unwrap();
        let frames = (0..3).map(|number| message("r", &format!("{client}-{number}")));
        let frames: Vec<_> = frames.collect();
        stream.write_all(&encode_frames(&frames)).unwrap();
        clients.push(stream);
    }
    // Half of them do not wait to see what becomes of their messages.
    clients.truncate(10);
    assert!(stage.context.tasks.shutdown(PATIENCE).await);
    assert_eq!(stage.bus.counts().queued, 60);
    for client in &mut clients {
        assert!(client.write_all(b"x").is_err(), "what is not read cannot be written");
    }
    assert!(UnixStream::connect(&stage.socket).is_err());
}

#[tokio::test]
async fn a_receiver_may_still_acknowledge_and_a_sender_still_gets_its_answer() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_with_ack("r").await;
    let mut sender = stage.connect_with_ack("s").await;
    assert_eq!(sender.request(message("r", "1")).await["type"], "accepted");
    assert_eq!(receiver.expect_frame_of_type("message").await["id"], "1");
    sender.send(&message("r", "2")).await.unwrap();
    let stopping = stage.context.tasks.shutdown(PATIENCE);
    let acknowledging = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        receiver.send(&json!({"type": "ack", "id": "1"})).await.unwrap();
        let answer = loop {
            let answer = sender.expect_frame().await;
            if answer["id"] == "2" {
                break answer;
            }
        };
        assert_eq!(answer["type"], "accepted", "{answer}");
        receiver.assert_closed().await;
    };
    let (ended, ()) = tokio::join!(stopping, acknowledging);
    assert!(ended);
    // The second message came after the stop, and waits for the next bus.
    assert_eq!((stage.bus.counts().delivered, stage.bus.counts().queued), (1, 1));
}

#[tokio::test]
async fn a_receiver_that_acknowledges_nothing_does_not_hold_the_end_up() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_with_ack("r").await;
    let mut sender = stage.connect_registered("s").await;
    sender.send(&message("r", "1")).await.unwrap();
    assert_eq!(receiver.expect_frame().await["id"], "1");
    assert!(stage.context.tasks.shutdown(Duration::from_secs(5)).await);
    assert_eq!(stage.bus.counts().queued, 1, "it comes again");
}
