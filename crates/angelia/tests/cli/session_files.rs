//! `sessions.snapshots`: a file per session.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::machine::{Machine, mode};

fn file(machine: &Machine, session: &str) -> PathBuf {
    machine.home().join(format!("snapshots/{session}.json"))
}

fn read(machine: &Machine, session: &str) -> Value {
    serde_json::from_slice(&fs::read(file(machine, session)).unwrap()).unwrap()
}

fn words(snapshot: &Value) -> Vec<(&str, &str)> {
    let messages = snapshot["messages"].as_array().unwrap().iter();
    let words = messages.map(|message| {
        let role = message["role"].as_str().unwrap();
        (role, message["content"][0]["text"].as_str().unwrap())
    });
    words.collect()
}

#[test]
fn each_session_is_a_file_that_follows_it_and_its_forks() {
    let machine = Machine::new();
    machine.configure("sessions: {snapshots: true}\n");
    let session = machine.turn(&["say one"]).session().to_owned();
    machine.turn(&["-s", &session, "say two"]).completed();
    let snapshot = read(&machine, &session);
    assert_eq!(snapshot["version"], 1);
    assert_eq!(snapshot["session"]["id"], session.as_str());
    assert_eq!(snapshot["turns"].as_array().unwrap().len(), 2);
    let said = words(&snapshot);
    let roles: Vec<&str> = said.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!((said[0].1, said[2].1), ("say one", "say two"));
    assert_eq!(mode(&file(&machine, &session)), 0o600);

    let forked = machine.angelia(&["sessions", "fork", &session]);
    let fork = forked.assert_code(0).stdout.trim().to_owned();
    machine.turn(&["-s", &fork, "say three"]).completed();
    let said_in_fork = read(&machine, &fork);
    assert_eq!(words(&said_in_fork).len(), 6, "{said_in_fork}");
    assert_eq!(words(&read(&machine, &session)).len(), 4, "the other stays");
    let names = fs::read_dir(machine.home().join("snapshots")).unwrap();
    assert_eq!(names.count(), 2, "nothing half written is left");

    machine.angelia(&["sessions", "delete", &session]).assert_code(0);
    assert!(!file(&machine, &session).exists());
}

#[test]
fn without_the_setting_there_are_none() {
    let machine = Machine::new();
    machine.turn(&["hello"]).completed();
    assert!(!machine.home().join("snapshots").exists());
}
