//! Starting and stopping the bus, and reporting its state correctly.

use std::{fs, os::unix::net::UnixListener};

use serde_json::json;

use crate::bus_machine::{BusMachine, text};

#[test]
fn it_starts_in_the_background_is_there_at_once_and_stops_without_a_trace() {
    let machine = BusMachine::new();
    let down = machine.angelia(&["bus", "status"]);
    assert_eq!(down.status.code(), Some(1), "{down:?}");
    let running = machine.start_in_background();
    let status = machine.status();
    assert_eq!(status["running"], true);
    let pid = status["pid"].as_u64().unwrap();
    for path in [machine.home().join("run/bus.pid"), machine.root().join("hermes/run/busd.pid")] {
        assert_eq!(fs::read_to_string(path).unwrap().trim(), pid.to_string());
    }
    // A second start does not start a second daemon.
    let again = machine.angelia(&["bus", "start"]);
    assert_eq!(again.status.code(), Some(0));
    assert!(text(&again.stdout).contains(&pid.to_string()), "{again:?}");
    assert_eq!(machine.status()["pid"], pid);
    drop(running);
    assert_eq!(machine.angelia(&["bus", "status"]).status.code(), Some(1));
    assert!(!machine.socket().exists());
    assert!(!machine.home().join("run/bus.pid").exists());
    assert!(!machine.root().join("hermes/run/busd.pid").exists());
    let twice = machine.angelia(&["bus", "stop"]);
    assert_eq!(twice.status.code(), Some(0), "{twice:?}");
}

#[test]
fn of_many_started_at_once_one_runs_and_all_say_so() {
    let machine = BusMachine::new();
    let started: Vec<_> = std::thread::scope(|scope| {
        let starts: Vec<_> =
            (0..4).map(|_| scope.spawn(|| machine.angelia(&["bus", "start"]))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let _stopped_at_the_end = machine.start_in_background();
    let pid = machine.status()["pid"].to_string();
    for start in &started {
        assert_eq!(start.status.code(), Some(0), "{start:?}");
        assert!(text(&start.stdout).contains(&pid), "{start:?}");
    }
}

#[test]
fn its_other_names_are_commands() {
    let machine = BusMachine::new();
    assert!(machine.named("hermes-busd", &["start"]).status.success());
    let _stopped_at_the_end = machine.start_in_background();
    let before = machine.status()["pid"].clone();
    assert!(machine.named("hermes-busd", &["restart"]).status.success());
    assert_ne!(machine.status()["pid"], before);
    assert!(machine.named("hermes-busd", &["status"]).status.success());
    assert!(machine.named("hermes-busd", &["stop"]).status.success());
    assert_eq!(machine.named("hermes-busd", &["status"]).status.code(), Some(1));
    assert_eq!(machine.named("hermes-busd", &["nonsense"]).status.code(), Some(2));
}

#[tokio::test]
async fn a_killed_bus_leaves_nothing_that_stops_the_next() {
    let machine = BusMachine::new();
    let mut daemon = machine.start_daemon();
    let mut sender = machine.register("s").await;
    let sent = json!({"type": "message", "to": "r", "id": "1", "body": {"text": "x"}});
    assert_eq!(sender.request(sent).await["type"], "accepted");
    daemon.kill();
    assert!(machine.socket().exists(), "nobody could remove it");
    assert_eq!(machine.angelia(&["bus", "status"]).status.code(), Some(1));
    fs::write(machine.home().join("run/bus.pid"), "garbage").unwrap();
    let _running = machine.start_in_background();
    let mut receiver = machine.register("r").await;
    let got = receiver.expect_frame().await;
    assert_eq!((&got["id"], &got["redelivered"]), (&json!("1"), &json!(true)));
}

#[test]
fn somebody_elses_daemon_is_left_alone() {
    let machine = BusMachine::new();
    fs::create_dir_all(machine.socket().parent().unwrap()).unwrap();
    let _theirs = UnixListener::bind(machine.socket()).unwrap();
    let start = machine.angelia(&["bus", "start"]);
    assert_eq!(start.status.code(), Some(75), "{start:?}");
    let stop = machine.angelia(&["bus", "stop"]);
    assert_eq!(stop.status.code(), Some(1), "{stop:?}");
    assert!(machine.socket().exists());
}

#[test]
fn a_bus_that_does_not_offer_hermes_socket_has_its_own() {
    let machine = BusMachine::new();
    fs::create_dir_all(machine.home()).unwrap();
    fs::write(machine.home().join("config.yaml"), "bus: {hermes_socket: false}\n").unwrap();
    let _running = machine.start_in_background();
    assert!(machine.own_socket().exists() && !machine.socket().exists());
    let sent = machine.angelia(&["notify", "--to", "r", "hello"]);
    assert_eq!(text(&sent.stdout), "OK: notified r: queued: never seen\n", "{sent:?}");
}

#[tokio::test]
async fn dead_letters_are_listed_and_sent_again() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let mut receiver = machine.register("r").await;
    let sent = machine.angelia(&["bus", "send", "--to", "r", "--from", "me", "hello"]);
    assert!(sent.status.success(), "{sent:?}");
    let got = receiver.expect_frame().await;
    let refuse = json!({"type": "refuse", "id": got["id"], "reason": "not today"});
    receiver.send(&refuse).await.unwrap();
    assert_eq!(receiver.request(json!({"type": "ping"})).await["type"], "pong");
    let list = machine.angelia(&["bus", "dead", "list", "--json"]);
    let letter: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(letter["reason"], "not today");
    let number = letter["position"].to_string();
    assert!(machine.angelia(&["bus", "dead", "resend", &number]).status.success());
    assert_eq!(receiver.expect_frame().await["id"], got["id"]);
    assert_eq!(machine.angelia(&["bus", "dead", "resend", &number]).status.code(), Some(1));
}

#[tokio::test]
async fn listening_prints_messages_and_says_when_its_name_is_taken() {
    use std::io::{BufRead as _, BufReader};
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let mut listening = machine
        .program(env!("CARGO_BIN_EXE_angelia"))
        .args(["bus", "listen", "r", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert!(machine.angelia(&["bus", "send", "--to", "r", "hello"]).status.success());
    let mut line = String::new();
    let mut output = BufReader::new(listening.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let message: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(message["body"]["text"], "hello");
    let _displacing = machine.register("r").await;
    assert_eq!(listening.wait().unwrap().code(), Some(1));
}
