//! Ten thousand messages, and `kill -9` of the bus at twenty random moments: every accepted message
//! arrives, in order, and a message that arrives twice has the same id.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use angelia_testkit::bus_peer::{BusPeer, encode_frames};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::bus_machine::BusMachine;

const MESSAGES: usize = 10_000;
const KILLS: usize = 20;
/// The most messages that are sent and not yet accepted.
const WINDOW: usize = 200;

fn message(number: usize) -> Value {
    json!({"type": "message", "to": "r", "id": number.to_string(), "ts": 1, "body": {"text": number}})
}

/// Sends every message, and resends those that were not accepted when the bus died.
async fn send(machine: Arc<BusMachine>, accepted: Arc<AtomicUsize>) {
    let mut pending: VecDeque<usize> = VecDeque::new();
    let mut next = 0;
    while accepted.load(Ordering::SeqCst) < MESSAGES {
        let Some(mut peer) = register(&machine, "s").await else {
            continue;
        };
        let again: Vec<Value> = pending.iter().map(|number| message(*number)).collect();
        if peer.send_bytes(&encode_frames(&again)).await.is_err() {
            continue;
        }
        loop {
            if pending.len() < WINDOW && next < MESSAGES {
                let count = (WINDOW - pending.len()).min(MESSAGES - next).min(20);
                let new: Vec<Value> = (next..next + count).map(message).collect();
                pending.extend(next..next + count);
                next += count;
                if peer.send_bytes(&encode_frames(&new)).await.is_err() {
                    break;
                }
            }
            let Ok(Some(answer)) = peer.next_frame().await else {
                break;
            };
            match answer["type"].as_str().unwrap() {
                "accepted" => {
                    let number = answer["id"].as_str().unwrap().parse().unwrap();
                    assert_eq!(pending.pop_front(), Some(number), "accepted out of order");
                    if accepted.fetch_add(1, Ordering::SeqCst) + 1 == MESSAGES {
                        return;
                    }
                }
                "delivered" => {}
                _ => panic!("{answer}"),
            }
        }
    }
}

/// Returns the messages in the order of their first arrival.
async fn receive(machine: Arc<BusMachine>) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = HashSet::new();
    while order.len() < MESSAGES {
        let Some(mut peer) = register(&machine, "r").await else {
            continue;
        };
        while let Ok(Some(frame)) = peer.next_frame().await {
            if frame["type"] != "message" {
                continue;
            }
            let number: usize = frame["id"].as_str().unwrap().parse().unwrap();
            assert_eq!(frame["body"]["text"], number);
            if seen.insert(number) {
                order.push(number);
            }
            let ack = json!({"type": "ack", "id": frame["id"]});
            if peer.send(&ack).await.is_err() || order.len() == MESSAGES {
                break;
            }
        }
    }
    order
}

async fn register(machine: &BusMachine, name: &str) -> Option<BusPeer> {
    let mut peer = BusPeer::connect_with_retry(&machine.socket()).await;
    let frame = json!({"type": "register", "endpoint": name, "ack": true});
    peer.send(&frame).await.ok()?;
    let reply = peer.next_frame().await.ok()??;
    assert_eq!(reply["type"], "registered", "{reply}");
    Some(peer)
}

fn moments() -> Vec<usize> {
    let random = || usize::try_from(Uuid::new_v4().as_u128() % MESSAGES as u128).unwrap();
    let mut moments: Vec<usize> = (0..KILLS).map(|_| random()).collect();
    moments.sort_unstable();
    moments
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::disallowed_methods,
    reason = "both go on while the daemon is killed, and are awaited at the end"
)]
async fn nothing_accepted_is_lost_when_the_bus_is_killed_twenty_times() {
    let machine = Arc::new(BusMachine::new());
    let mut daemon = machine.start_daemon();
    let accepted = Arc::new(AtomicUsize::new(0));
    let sending = tokio::spawn(send(Arc::clone(&machine), Arc::clone(&accepted)));
    let receiving = tokio::spawn(receive(Arc::clone(&machine)));
    let moments = moments();
    for moment in &moments {
        while accepted.load(Ordering::SeqCst) < *moment {
            assert!(!sending.is_finished(), "the sender has given up");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        daemon.kill();
        daemon = machine.start_daemon();
    }
    let patience = Duration::from_mins(2);
    tokio::time::timeout(patience, sending).await.unwrap().unwrap();
    let order = tokio::time::timeout(patience, receiving).await.unwrap().unwrap();
    let expected: Vec<usize> = (0..MESSAGES).collect();
    assert!(
        order == expected,
        "killed at {moments:?}; first difference at {:?}",
        order.iter().zip(&expected).position(|(got, expected)| got != expected)
    );
}
