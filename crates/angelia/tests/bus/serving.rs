//! The bus inside `angelia serve`.

use std::{
    os::unix::net::UnixListener,
    process::Stdio,
    time::{Duration, Instant},
};

use angelia_testkit::bus_peer::BusPeer;
use serde_json::{Value, json};

use crate::bus_machine::{BusDaemon, BusMachine, text};

const ANGELIA: &str = env!("CARGO_BIN_EXE_angelia");

pub(crate) fn serving(machine: &BusMachine) -> BusDaemon {
    let child = machine
        .program(ANGELIA)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let daemon = BusDaemon(child);
    let address = machine.home().join("run/http.addr");
    let deadline = Instant::now() + Duration::from_mins(1);
    while !address.exists() {
        assert!(Instant::now() < deadline, "it does not serve");
        std::thread::sleep(Duration::from_millis(20));
    }
    daemon
}

#[tokio::test]
async fn the_bus_is_there_and_the_bus_commands_leave_it_alone() {
    let machine = BusMachine::new();
    let daemon = serving(&machine);
    let mut peer = machine.register("r").await;
    let sent = machine.angelia(&["bus", "send", "--to", "r", "hello"]);
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(peer.expect_frame().await["body"], json!({"text": "hello"}));
    let pid = daemon.0.id();
    assert_eq!(machine.status()["pid"], pid);
    let start = machine.angelia(&["bus", "start"]);
    assert_eq!(start.status.code(), Some(0), "{start:?}");
    assert!(text(&start.stdout).contains("angelia serve"), "{start:?}");
    for verb in ["stop", "restart"] {
        let refused = machine.angelia(&["bus", verb]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    }
    assert_eq!(machine.status()["pid"], pid);
}

#[tokio::test]
async fn serve_leaves_somebody_elses_daemon_alone_and_takes_its_socket_when_it_stops() {
    let machine = BusMachine::new();
    std::fs::create_dir_all(machine.socket().parent().unwrap()).unwrap();
    let theirs = UnixListener::bind(machine.socket()).unwrap();
    let daemon = serving(&machine);
    let mut peer = BusPeer::connect_with_retry(&machine.own_socket()).await;
    let register = json!({"type": "register", "endpoint": "r", "ack": true});
    assert_eq!(peer.request(register).await["type"], "registered");
    assert_eq!(machine.status()["pid"], Value::Null, "Hermes' socket is the one that was chosen");
    drop(theirs);
    let mut old = machine.register("s").await;
    let message = json!({"type": "message", "to": "r", "id": "1", "body": {"text": "x"}});
    assert_eq!(old.request(message).await["type"], "accepted");
    assert_eq!(peer.expect_frame().await["id"], "1");
    assert_eq!(machine.status()["pid"], daemon.0.id());
}
