//! An agent's reply reaches its sender, also one that is away when the agent answers.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    bus_machine::{BusMachine, text},
    serving::serving,
};

const DEADLINE: Duration = Duration::from_mins(1);

/// Prepares a daemon that answers messages of type `ask` with the demo agent.
fn machine_that_answers() -> BusMachine {
    let machine = BusMachine::without_hermes();
    fs::create_dir_all(machine.home()).unwrap();
    let work = machine.root().join("project");
    fs::create_dir(&work).unwrap();
    let config =
        format!("profiles:\n  default:\n    executor: parrot\n    cwd: {}\n", work.display());
    fs::write(machine.home().join("config.yaml"), config).unwrap();
    let rules = "callbacks:\n- {match_type: ask, context: true}\n";
    fs::write(machine.home().join("bus-rules.yaml"), rules).unwrap();
    machine
}

fn ask(machine: &BusMachine, from: &str) {
    let to = ["notify", "--to", "angelia", "--type", "ask", "--from", from, "what is it?"];
    let sent = machine.angelia(&to);
    assert!(sent.status.success(), "{sent:?}");
}

/// Listens under a name until a message has come, and returns it.
fn listen_once(machine: &BusMachine, name: &str) -> Value {
    let mut child = machine
        .program(env!("CARGO_BIN_EXE_angelia"))
        .args(["bus", "listen", name, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // The message is acknowledged after it was printed.
    wait_until(machine, |status| queued_for(status, name) == 0);
    child.kill().unwrap();
    child.wait().unwrap();
    serde_json::from_str(&line).unwrap()
}

fn queued_for(status: &Value, name: &str) -> u64 {
    let endpoints = status["endpoints"].as_array().map_or(&[][..], Vec::as_slice);
    let endpoint = endpoints.iter().find(|one| one["endpoint"] == name);
    endpoint.map_or(0, |one| one["queued"].as_u64().unwrap())
}

fn wait_until(machine: &BusMachine, mut is_so: impl FnMut(&Value) -> bool) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let status = machine.status();
        if is_so(&status) {
            return;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reply_waits_for_a_sender_that_is_away_also_over_a_restart() {
    let machine = machine_that_answers();
    let _stopped = machine.stop_at_end();
    let sent = machine.angelia(&["notify", "--to", "me", "a first message"]);
    assert!(sent.status.success(), "{sent:?}");
    // From now on the bus knows the name; nobody listens there any more.
    assert_eq!(listen_once(&machine, "me")["body"]["text"], "a first message");
    let mut daemon = serving(&machine);
    ask(&machine, "me");
    wait_until(&machine, |status| queued_for(status, "me") == 1);
    daemon.kill();
    let _daemon = serving(&machine);
    let reply = listen_once(&machine, "me");
    assert_eq!((&reply["from"], &reply["body"]["type"]), (&"angelia".into(), &"reply".into()));
    assert!(reply["body"]["text"].as_str().unwrap().contains("what is it?"), "{reply}");
}

#[test]
fn a_reply_to_a_name_that_never_listened_is_a_dead_letter() {
    let machine = machine_that_answers();
    let _daemon = serving(&machine);
    ask(&machine, "nobody");
    wait_until(&machine, |status| status["dead"] == 1);
    let dead = machine.angelia(&["bus", "dead", "list", "--json"]);
    let letter: Value = serde_json::from_str(&text(&dead.stdout)).unwrap();
    assert_eq!((&letter["to"], &letter["message"]["from"]), (&"nobody".into(), &"angelia".into()));
    assert_eq!(letter["message"]["body"]["type"], "reply", "{letter}");
    // A listener that comes now can have it.
    let number = letter["position"].to_string();
    assert!(machine.angelia(&["bus", "dead", "resend", &number]).status.success());
    assert_eq!(listen_once(&machine, "nobody")["body"]["type"], "reply");
}

#[test]
fn the_result_of_a_schedule_waits_for_its_endpoint() {
    let machine = machine_that_answers();
    let _daemon = serving(&machine);
    let at = (jiff::Timestamp::now() + Duration::from_secs(1)).to_string();
    let added = machine.angelia(&["schedule", "add", "--at", &at, "--to", "desk", "what is new?"]);
    assert!(added.status.success(), "{added:?}");
    wait_until(&machine, |status| queued_for(status, "desk") == 1);
    let message = listen_once(&machine, "desk");
    assert_eq!((&message["from"], &message["to"]), (&"angelia".into(), &"desk".into()));
    let body = &message["body"];
    assert_eq!((&body["type"], &body["status"]), (&"schedule".into(), &"completed".into()));
    assert!(body["text"].as_str().unwrap().contains("what is new?"), "{message}");
}
