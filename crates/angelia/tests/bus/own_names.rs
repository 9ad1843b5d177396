//! People who have never used Hermes see none of its names, and nothing of it on their disk.

use std::fs;

use serde_json::json;

use crate::{
    bus_machine::{BusMachine, text},
    serving::serving,
};

#[test]
fn the_bus_has_its_own_names_for_people_who_never_used_hermes() {
    let machine = BusMachine::without_hermes();
    let _stopped = machine.stop_at_end();
    let mut shown = Vec::new();
    let mut run = |arguments: &[&str]| {
        let ran = machine.angelia(arguments);
        shown.push(format!("{arguments:?}: {}{}", text(&ran.stdout), text(&ran.stderr)));
        ran
    };
    for arguments in [
        &["--help"][..],
        &["notify", "--help"],
        &["bus", "--help"],
        &["bus", "listen", "--help"],
        &["bus", "dead", "--help"],
        &["bus", "dead", "list"],
        &["bus", "status"],
        &["bus", "stop"],
        &["notify", "--to", "angelia", "hello"],
        &["bus", "start"],
        &["bus", "status"],
        &["bus", "stop"],
        &["doctor"],
    ] {
        run(arguments);
    }
    let daemon = serving(&machine);
    run(&["bus", "status"]);
    run(&["notify", "--to", "angelia", "hello"]);
    assert!(shown.concat().contains("angelia/run/bus.sock"), "{shown:#?}");
    for words in &shown {
        assert!(!words.to_lowercase().contains("hermes"), "{words}");
    }
    drop(daemon);
    assert!(!machine.user_home().join(".hermes").exists());
}

#[test]
fn hermes_socket_is_offered_where_hermes_is_used_or_asked_for() {
    let machine = BusMachine::without_hermes();
    let hermes = machine.user_home().join(".hermes");
    let socket = hermes.join("hermes-bus.sock");
    let is_offered = || {
        let _running = machine.start_in_background();
        assert!(machine.own_socket().exists());
        socket.exists()
    };
    assert!(!is_offered());
    fs::write(machine.home().join("config.yaml"), "bus: {hermes_socket: on}\n").unwrap();
    assert!(is_offered(), "asked for");
    fs::write(machine.home().join("config.yaml"), "bus: {hermes_socket: auto}\n").unwrap();
    assert!(is_offered(), "~/.hermes exists");
    fs::remove_dir_all(&hermes).unwrap();
    assert!(machine.named("hermes-busd", &["start"]).status.success());
    assert!(socket.exists(), "started under Hermes' name");
    assert!(machine.named("hermes-busd", &["stop"]).status.success());
}

#[tokio::test]
async fn the_daemon_listens_as_angelia_or_as_its_configuration_says() {
    let machine = BusMachine::without_hermes();
    for (config, name) in [("{}\n", "angelia"), ("bus: {endpoint: coder}\n", "coder")] {
        fs::create_dir_all(machine.home()).unwrap();
        fs::write(machine.home().join("config.yaml"), config).unwrap();
        let _daemon = serving(&machine);
        let sent = machine.angelia(&["notify", "--to", name, "--from", "me", "hello"]);
        assert!(sent.status.success(), "{sent:?}");
        let endpoints = machine.status()["endpoints"].clone();
        let is_listening = |one: &serde_json::Value| {
            one["endpoint"] == json!(name) && one["session_id"] != json!(null)
        };
        assert!(endpoints.as_array().unwrap().iter().any(is_listening), "{endpoints}");
    }
}

#[test]
fn a_sender_proves_its_name_with_the_token_of_its_listener() {
    use std::{
        io::{BufRead as _, BufReader},
        process::Stdio,
    };
    let machine = BusMachine::without_hermes();
    let _running = machine.start_in_background();
    let token = machine.root().join("token");
    fs::write(&token, "s3cret\n").unwrap();
    let token = token.to_str().unwrap();
    let listen = |arguments: &[&str]| {
        let mut listening = machine.program(env!("CARGO_BIN_EXE_angelia"));
        listening.args(["bus", "listen"]).args(arguments).stdout(Stdio::piped());
        let mut child = listening.stderr(Stdio::piped()).spawn().unwrap();
        let mut note = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut note).unwrap();
        assert!(note.starts_with("listening as"), "{note}");
        child
    };
    let mut mine = listen(&["me", "--token-file", token]);
    let rules = "callbacks:\n\
                 - {verified: true, print_format: 'proven {from}: {text}'}\n\
                 - {verified: false, print_format: 'said {from}: {text}'}\n";
    fs::write(machine.home().join("bus-rules.yaml"), rules).unwrap();
    let mut receiver = listen(&["r"]);
    let send = ["notify", "--to", "r", "--from", "me"];
    let proven = machine.angelia(&[&send[..], &["--token-file", token, "one"]].concat());
    assert!(proven.status.success(), "{proven:?}");
    assert!(machine.angelia(&[&send[..], &["two"]].concat()).status.success());
    let output = BufReader::new(receiver.stdout.take().unwrap());
    let lines: Vec<String> = output.lines().take(2).map(Result::unwrap).collect();
    assert_eq!(lines, ["proven me: one", "said me: two"]);
    let missing = machine.angelia(&[&send[..], &["--token-file", "missing", "x"]].concat());
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    for child in [&mut mine, &mut receiver] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
