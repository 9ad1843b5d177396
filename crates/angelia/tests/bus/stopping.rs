//! A bus can always be stopped, even if its files are gone or it hangs.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
    time::{Duration, Instant},
};

use angelia_testkit::process_table;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::bus_machine::{BusDaemon, BusMachine, text};

fn signal(pid: u64, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn a_bus_whose_files_were_removed_is_still_known_and_stopped() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let pid = machine.status()["pid"].as_u64().unwrap();
    fs::remove_file(machine.home().join("run/bus.pid")).unwrap();
    fs::remove_file(machine.root().join("hermes/run/busd.pid")).unwrap();
    assert_eq!(machine.status()["pid"], pid);
    let start = machine.angelia(&["bus", "start"]);
    assert_eq!(start.status.code(), Some(0), "{start:?}");
    assert!(text(&start.stdout).contains(&pid.to_string()), "{start:?}");
    let stop = machine.angelia(&["bus", "stop"]);
    assert_eq!(stop.status.code(), Some(0), "{stop:?}");
    assert!(text(&stop.stdout).contains(&pid.to_string()), "{stop:?}");
    assert_eq!(machine.status()["running"], json!(false));
    assert!(!machine.socket().exists());
}

#[test]
fn a_number_in_a_file_makes_no_process_the_bus() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let pid = machine.status()["pid"].as_u64().unwrap();
    let victim = machine.program("sleep").arg("600").spawn().unwrap();
    let mut victim = BusDaemon(victim);
    let run = machine.root().join("hermes/run/busd.pid");
    for file in [machine.home().join("run/bus.pid"), machine.home().join("bus/lock"), run] {
        assert!(file.exists(), "{}", file.display());
        fs::write(file, format!("{}\n", victim.0.id())).unwrap();
    }
    let stop = machine.angelia(&["bus", "stop"]);
    assert_eq!(stop.status.code(), Some(0), "{stop:?}");
    assert!(text(&stop.stdout).contains(&pid.to_string()), "{stop:?}");
    assert!(victim.0.try_wait().unwrap().is_none(), "it got a signal");
    assert_eq!(machine.status()["running"], json!(false));
}

#[test]
fn a_bus_that_hangs_is_stopped_by_force() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let pid = machine.status()["pid"].as_u64().unwrap();
    signal(pid, Signal::STOP);
    let stop = machine.angelia(&["bus", "stop"]);
    assert_eq!(stop.status.code(), Some(0), "{stop:?}");
    assert_eq!(machine.status()["running"], json!(false));
    assert!(!machine.socket().exists());
    let _again = machine.start_in_background();
    assert_ne!(machine.status()["pid"], pid);
}

#[tokio::test]
async fn hermes_bus_server_runs_in_the_foreground_until_it_is_told_to_end() {
    let machine = BusMachine::new();
    let child = machine
        .program(machine.root().join("bin/hermes-bus-server"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut daemon = BusDaemon(child);
    let mut peer = machine.register("r").await;
    let listed = peer.request(json!({"type": "list_endpoints"})).await;
    assert!(listed["endpoints"]["r"].is_string(), "{listed}");
    assert_eq!(machine.status()["pid"], daemon.0.id());
    signal(daemon.0.id().into(), Signal::TERM);
    assert!(daemon.0.wait().unwrap().success());
    assert!(!machine.socket().exists());
}

#[test]
fn profiles_share_one_socket_that_is_their_owners() {
    let machine = BusMachine::new();
    let home = machine.home();
    let user = home.parent().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = machine.program(env!("CARGO_BIN_EXE_angelia"));
        command
            .args(arguments)
            .env_remove("HERMES_BUS_ROOT")
            .env("HERMES_HOME", user.join(".hermes/profiles/coder"));
        command.output().unwrap()
    };
    fs::create_dir_all(user.join(".hermes/profiles/coder")).unwrap();
    assert!(run(&["bus", "start"]).status.success());
    let socket = user.join(".hermes/hermes-bus.sock");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(&user.join(".hermes/run")), 0o700);
    let sent = run(&["notify", "--to", "r", "hello"]);
    assert!(sent.status.success(), "{sent:?}");
    let status = text(&run(&["bus", "status"]).stdout);
    for told in [
        "the bus is running (process ",
        &format!("socket: {}", machine.own_socket().display()),
        &format!("for Hermes: {}", socket.display()),
        "1 accepted, 0 delivered, 0 refused, 1 waiting, 0 dead",
        "r (away), 1 waiting",
        "bus.log",
        "the bus listens on",
    ] {
        assert!(status.contains(told), "{told}: {status}");
    }
    assert!(run(&["bus", "stop"]).status.success());
}

/// Returns the number of children of a process, including zombies, without the one that watches over
/// the others.
fn children(pid: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let is_watcher = |child: &&str| process_table::is_owner_watch(child.parse().unwrap());
    let children = threads.filter_map(|thread| {
        let path = thread.ok()?.path().join("children");
        let children = fs::read_to_string(path).ok()?;
        Some(children.split_whitespace().filter(|child| !is_watcher(child)).count())
    });
    children.sum()
}

#[tokio::test]
async fn hooks_see_every_message_slow_nobody_and_leave_nothing_behind() {
    let machine = BusMachine::new();
    let seen = machine.root().join("seen");
    let note = machine.root().join("note.sh");
    let slow = machine.root().join("slow.sh");
    fs::write(&note, format!("cat >> {0}; echo >> {0}\n", seen.display())).unwrap();
    fs::write(&slow, "sleep 0.3 & exit 3\n").unwrap();
    let child = machine
        .program(env!("CARGO_BIN_EXE_angelia"))
        .args(["bus", "run"])
        .env("HERMES_BUS_HOOKS", json!([slow, note, "/nowhere/at-all.sh"]).to_string())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let daemon = BusDaemon(child);
    let mut receiver = machine.register("r").await;
    let mut sender = machine.register("s").await;
    for number in 0..20 {
        let id = number.to_string();
        let message = json!({"type": "message", "to": "r", "id": id, "body": {"text": id}});
        sender.send(&message).await.unwrap();
        assert_eq!(receiver.expect_frame_of_type("message").await["id"], id);
    }
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let lines = fs::read_to_string(&seen).unwrap_or_default();
        if lines.lines().count() == 20 && children(daemon.0.id()) == 0 {
            assert!(lines.contains(r#""id": "19""#), "{lines}");
            return;
        }
        assert!(Instant::now() < deadline, "{lines}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
