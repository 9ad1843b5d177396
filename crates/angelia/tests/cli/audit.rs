//! `angelia audit`: what the owner has done, with a daemon and without one.

use serde_json::Value;

use crate::machine::{Machine, until};

fn rows(machine: &Machine, more: &[&str]) -> Vec<Value> {
    let listed = machine.angelia(&[&["audit", "--json"], more].concat());
    listed.assert_code(0);
    listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the actions and what was acted on, oldest first.
fn acts(machine: &Machine) -> Vec<String> {
    let told = |row: &Value| {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        format!("{} {}: {}", text("who"), text("action"), text("what"))
    };
    let mut acts: Vec<String> = rows(machine, &[]).iter().map(told).collect();
    acts.reverse();
    acts
}

fn session_of(machine: &Machine) -> String {
    let sessions = machine.list("sessions");
    sessions[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn what_the_owner_does_is_a_row_with_and_without_a_daemon() {
    let machine = Machine::new();
    machine.angelia(&["audit"]).assert_code(0).assert_stderr("there are no rows");
    machine.angelia(&["keys", "add", "bot"]).assert_code(0);
    machine.turn(&["hello"]);
    let first = session_of(&machine);
    machine.angelia(&["sessions", "delete", &first]).assert_code(0);
    let before =
        ["terminal key: added `bot`".to_owned(), format!("terminal deletion: session {first}")];
    assert_eq!(acts(&machine), before);

    let serving = machine.serve();
    until("it has said what is exposed", || acts(&machine).len() == 3);
    assert!(acts(&machine)[2].starts_with("terminal exposure: exposed: holders of the keys `bot`"));
    machine.turn(&["hello"]);
    let second = session_of(&machine);
    machine.angelia(&["sessions", "delete", &second]).assert_code(0);
    assert_eq!(acts(&machine)[3], format!("terminal deletion: session {second}"));
    machine.angelia(&["keys", "revoke", "bot"]).assert_code(0);
    until("the daemon has seen the change", || acts(&machine).len() == 6);
    assert_eq!(acts(&machine)[4], "terminal key: revoked `bot`");
    assert!(acts(&machine)[5].starts_with("terminal configuration: "), "{:?}", acts(&machine));
    assert_eq!(rows(&machine, &["-n", "2"]).len(), 2);
    assert_eq!(rows(&machine, &["--since", "1d"]).len(), 6);
    assert!(rows(&machine, &["--since", "2999-01-01"]).is_empty());
    machine.angelia(&["audit", "--since", "soon"]).assert_code(2).assert_stderr("7d");
    serving.stop().assert_code(0);
    assert_eq!(rows(&machine, &["--since", "1d"]).len(), 6);
}
