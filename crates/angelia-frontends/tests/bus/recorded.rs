//! Plays recorded traffic of hermes-bus 0.7.0 to our bus. Differences in our answers are explained
//! where they are handled.

use std::{collections::HashMap, path::Path, time::Duration};

use angelia_testkit::bus_peer::{BusPeer, encode_frames};
use serde_json::{Value, json};

use crate::harness::SocketHarness;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hermes-bus");

fn lines(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(FIXTURES).join(file)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

struct RecordingPlayer {
    stage: SocketHarness,
    peers: HashMap<String, BusPeer>,
    /// The name that each connection has registered.
    names: HashMap<String, String>,
    /// The senders of messages, by message id.
    senders: HashMap<String, String>,
    last_sender: String,
}

impl RecordingPlayer {
    async fn new() -> Self {
        Self {
            stage: SocketHarness::new().await,
            peers: HashMap::new(),
            names: HashMap::new(),
            senders: HashMap::new(),
            last_sender: String::new(),
        }
    }

    async fn play(&mut self, file: &str) {
        for line in lines(file) {
            let conn = line["conn"].as_str().unwrap();
            match line["dir"].as_str().unwrap() {
                "c2s" => self.send_recorded(conn, &line).await,
                "s2c" => self.expect_recorded(conn, &line["frame"]).await,
                _ => self.apply_event(conn, &line).await,
            }
        }
    }

    fn peer(&mut self, conn: &str) -> &mut BusPeer {
        self.peers.get_mut(conn).unwrap()
    }

    async fn send_recorded(&mut self, conn: &str, line: &Value) {
        if let Some(hex) = line["raw_hex"].as_str() {
            let bytes: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            self.peer(conn).send_bytes(&bytes).await.unwrap();
            return;
        }
        let frame = &line["frame"];
        if frame["type"] == "register"
            && let Some(name) = frame["endpoint"].as_str()
        {
            let name = name.to_owned();
            self.names.entry(conn.to_owned()).or_insert(name);
        }
        self.last_sender = conn.to_owned();
        if let Some(id) = frame["id"].as_str() {
            self.senders.insert(id.to_owned(), conn.to_owned());
        }
        // The connection of a displaced client may be closed already.
        let _closed = self.peer(conn).send(frame).await;
    }

    /// Asserts that our frame equals the recorded one byte for byte, except for values that are new
    /// in every run, and for `from`, which is always true here.
    async fn expect_recorded(&mut self, conn: &str, recorded: &Value) {
        let mut heard = self.peer(conn).expect_frame().await;
        let mut recorded = recorded.clone();
        if recorded["type"] == "message" {
            let sender = heard["id"].as_str().and_then(|id| self.senders.get(id));
            let sender = sender.unwrap_or(&self.last_sender);
            if let Some(name) = self.names.get(sender) {
                recorded["from"] = json!(name);
            }
            // The daemon generates this value.
            if !self.senders.contains_key(heard["id"].as_str().unwrap()) {
                recorded["id"] = heard["id"].clone();
            }
            let is_recent = |ts: &Value| ts.as_f64().is_some_and(|ts| ts > 1_000_000.0);
            if is_recent(&recorded["ts"]) {
                assert!(is_recent(&heard["ts"]), "{heard}");
                recorded["ts"] = heard["ts"].clone();
            }
        }
        for frame in [&mut heard, &mut recorded] {
            if let Some(session) = frame.get_mut("session_id") {
                assert_eq!(session.as_str().unwrap().len(), 36);
                *session = json!("…");
            }
            if let Some(endpoints) = frame.get_mut("endpoints") {
                for session in endpoints.as_object_mut().unwrap().values_mut() {
                    *session = json!("…");
                }
                // Our names are never empty.
                endpoints.as_object_mut().unwrap().remove("");
            }
        }
        assert_eq!(heard, recorded, "on {conn}");
    }

    async fn apply_event(&mut self, conn: &str, line: &Value) {
        match line["event"].as_str().unwrap() {
            "connect" => {
                let peer = self.stage.connect().await;
                self.peers.insert(conn.to_owned(), peer);
                self.names.remove(conn);
            }
            "close" => {
                self.peers.remove(conn);
                let name = self.names.remove(conn);
                // The next recorded line may depend on this connection being gone.
                let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
                while let Some(name) = &name
                    && !self.names.values().any(|other| other == name)
                    && self.is_listed(name)
                {
                    assert!(tokio::time::Instant::now() < deadline, "{name} stays");
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            "eof" | "oserror" => {
                if let Some(peer) = self.peers.get_mut(conn) {
                    peer.assert_closed().await;
                }
            }
            "no-frame-within-timeout" => self.peer(conn).assert_no_frame().await,
            _ => {}
        }
    }

    fn is_listed(&self, name: &str) -> bool {
        let listening = self.stage.bus.listeners();
        listening.iter().any(|(listed, _)| listed.as_str() == name)
    }
}

#[tokio::test]
async fn registering_listing_sending_and_broadcasting_are_as_recorded() {
    let mut player = RecordingPlayer::new().await;
    for file in [
        "01-register-list-ping.jsonl",
        "02-send-deliver.jsonl",
        "04-broadcast.jsonl",
        "05-name-collision.jsonl",
        "08-kicked-client-silent.jsonl",
    ] {
        player.play(file).await;
    }
}

/// Our bus queues a message where hermes-bus lost it: the sender gets no error, and a receiver that
/// registers later gets the message.
#[tokio::test]
async fn a_message_to_nobody_waits() {
    let mut player = RecordingPlayer::new().await;
    player.play("01-register-list-ping.jsonl").await;
    let registered = player.stage.connect_registered("beta").await;
    player.peers.insert("b".to_owned(), registered);
    player.names.insert("b".to_owned(), "beta".to_owned());
    for line in lines("03-offline-target.jsonl") {
        let conn = line["conn"].as_str().unwrap();
        match (line["dir"].as_str().unwrap(), conn) {
            ("c2s", _) => player.send_recorded(conn, &line).await,
            ("s2c", "anon") => player.peer("anon").assert_no_frame().await,
            ("s2c", _) => player.expect_recorded(conn, &line["frame"]).await,
            _ if conn == "ghost" && line["event"] == "no-frame-within-timeout" => {
                for (id, from) in [("g1", json!("beta")), ("g2", json!(null))] {
                    let late = player.peer("ghost").expect_frame().await;
                    assert_eq!((&late["id"], &late["from"]), (&json!(id), &from));
                }
            }
            _ => player.apply_event(conn, &line).await,
        }
    }
}

/// One difference: an empty name is refused, because nothing could be sent to it.
#[tokio::test]
async fn what_is_malformed_closes_its_connection_only() {
    let mut player = RecordingPlayer::new().await;
    for name in ["alpha", "beta"] {
        let registered = player.stage.connect_registered(name).await;
        player.peers.insert(name.chars().next().unwrap().to_string(), registered);
    }
    let mut is_refused = false;
    for line in lines("06-malformed.jsonl") {
        let conn = line["conn"].as_str().unwrap();
        if line["frame"] == json!({"type": "register", "endpoint": ""}) {
            let refusal = player.peer(conn).request(line["frame"].clone()).await;
            assert_eq!(refusal["type"], "error");
            player.peer(conn).assert_closed().await;
            is_refused = true;
        } else if is_refused {
            // Skip the lines of the closed connection up to the next connection.
            is_refused = line["event"] != "connect";
            if !is_refused {
                player.apply_event(conn, &line).await;
            }
        } else {
            match line["dir"].as_str().unwrap() {
                "c2s" => player.send_recorded(conn, &line).await,
                "s2c" => player.expect_recorded(conn, &line["frame"]).await,
                _ => player.apply_event(conn, &line).await,
            }
        }
    }
}

#[tokio::test]
async fn our_frames_have_the_recorded_lengths() {
    let stage = SocketHarness::new().await;
    let mut raw = stage.connect().await;
    let register = json!({"type": "register", "endpoint": "alpha"});
    raw.send(&register).await.unwrap();
    let mut bytes = [0; 4 + 97 + 4 + 16];
    raw.send(&json!({"type": "ping"})).await.unwrap();
    tokio::io::AsyncReadExt::read_exact(&mut raw.stream, &mut bytes).await.unwrap();
    assert_eq!(bytes[..4], 97_u32.to_be_bytes(), "as in fixture 01");
    let pong = encode_frames([&json!({"type": "pong"})]);
    assert_eq!(bytes[4 + 97..], pong);
}
