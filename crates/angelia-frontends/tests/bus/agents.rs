//! Agents' own processes on the bus.

use std::{path::Path, time::Duration};

use angelia_frontends::bus::request::FrameKind;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{SocketHarness, message};

const CLIENT: &str = "
import json, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ['SOCKET'])
for frame in json.loads(os.environ['FRAMES']):
    data = json.dumps(frame).encode()
    s.sendall(struct.pack('>I', len(data)) + data)
    size = s.recv(4, socket.MSG_WAITALL)
    if len(size) < 4:
        break
    print(s.recv(struct.unpack('>I', size)[0], socket.MSG_WAITALL).decode())
";

/// Sends frames from a process that an agent of this session started, and that has removed the mark
/// from its own environment. Returns the replies.
#[expect(clippy::disallowed_methods, reason = "the client must be another process")]
async fn from_agent(socket: &Path, session: &str, frames: Value) -> Vec<Value> {
    let output = tokio::process::Command::new("sh")
        .args(["-c", "env -u ANGELIA_AGENT python3 -c \"$CLIENT\"; true"])
        .env("ANGELIA_AGENT", format!("home:owner:{session}"))
        .env("SOCKET", socket)
        .env("FRAMES", frames.to_string())
        .env("CLIENT", CLIENT)
        .kill_on_drop(true)
        .output();
    let output = timeout(Duration::from_secs(30), output).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn register(name: &str) -> Value {
    json!({"type": "register", "endpoint": name, "ack": true})
}

const ONE: &str = "0198c0de-0000-7000-8000-000000000001";
const OTHER: &str = "0198c0de-0000-7000-8000-000000000002";

#[tokio::test]
async fn an_agent_registers_no_name_of_another() {
    let stage = SocketHarness::new().await;
    let _listening = stage.connect_with_ack("listening").await;
    drop(stage.connect_registered("away").await);
    stage.wait_until_listed(&["listening"]).await;
    let mut sender = stage.connect().await;
    let mut waiting = message("awaited", "1");
    waiting["ack"] = json!(true);
    sender.request(waiting).await;
    for name in ["listening", "away", "awaited"] {
        let replies = from_agent(&stage.socket, ONE, json!([register(name)])).await;
        assert_eq!(replies[0]["reason"], "not_granted", "{name}");
    }
    // A name that nobody has used is its own from then on, and no other agent's.
    for (session, reply) in [(ONE, "registered"), (ONE, "registered"), (OTHER, "rejected")] {
        let replies = from_agent(&stage.socket, session, json!([register("worker")])).await;
        assert_eq!(replies[0]["type"], reply, "{replies:?}");
    }
    // An agent without a session registers nothing.
    let replies = from_agent(&stage.socket, "nobody", json!([register("new")])).await;
    assert_eq!(replies[0]["reason"], "not_granted");
    // The owner may take over any of them.
    let _owner = stage.connect_with_ack("worker").await;
    let replies = from_agent(&stage.socket, ONE, json!([register("worker")])).await;
    assert_eq!(replies[0]["reason"], "not_granted");
}

/// The requests that a process of an agent may make. A new verb is missing here.
#[tokio::test]
async fn every_verb_is_open_to_agents_or_not() {
    let stage = SocketHarness::new().await;
    let mut send = message("r", "1");
    send["ack"] = json!(true);
    let verbs = [
        (FrameKind::Register, register("mine"), "registered"),
        (FrameKind::Ping, json!({"type": "ping"}), "pong"),
        (FrameKind::ListEndpoints, json!({"type": "list_endpoints"}), "endpoints_list"),
        (FrameKind::Message, send, "accepted"),
        // These have no reply of their own.
        (FrameKind::Ack, json!({"type": "ack", "id": "1"}), ""),
        (FrameKind::Refuse, json!({"type": "refuse", "id": "1"}), ""),
        (FrameKind::Unknown, json!({"type": "unknown"}), ""),
        (FrameKind::Status, json!({"type": "status"}), "status"),
        (FrameKind::DeadLetters, json!({"type": "dead_letters"}), "rejected"),
        (FrameKind::Resend, json!({"type": "resend", "position": 1}), "rejected"),
        (FrameKind::Discard, json!({"type": "discard", "position": 1}), "rejected"),
    ];
    for kind in FrameKind::ALL {
        let (_, frame, reply) = verbs.iter().find(|(verb, ..)| *verb == kind).unwrap();
        if reply.is_empty() {
            continue;
        }
        let replies = from_agent(&stage.socket, ONE, json!([frame])).await;
        assert_eq!(replies[0]["type"], *reply, "{kind:?}");
        let refused = *reply == "rejected";
        assert_eq!(refused, replies[0]["reason"] == "not_granted", "{kind:?}");
    }
}

/// The account that pays for the agent pays for the turns of its messages, so the bus names the
/// agent's session.
#[tokio::test]
async fn the_message_of_an_agent_names_its_session() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_with_ack("r").await;
    let mut sent = message("r", "1");
    sent["ack"] = json!(true);
    sent["sender_session"] = json!(OTHER);
    from_agent(&stage.socket, ONE, json!([sent])).await;
    assert_eq!(receiver.expect_frame_of_type("message").await["sender_session"], ONE);
    // No other client can set this field.
    sent["id"] = json!("2");
    stage.connect().await.request(sent).await;
    assert_eq!(receiver.expect_frame_of_type("message").await["sender_session"], Value::Null);
}
