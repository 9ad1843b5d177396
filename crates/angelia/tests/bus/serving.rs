//! The bus inside `angelia serve`.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::json;

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

#[test]
fn serve_goes_on_without_a_bus_that_somebody_else_has() {
    let machine = BusMachine::new();
    let _alone = machine.start_in_background();
    let pid = machine.status()["pid"].clone();
    let _serving = serving(&machine);
    assert_eq!(machine.status()["pid"], pid);
}
