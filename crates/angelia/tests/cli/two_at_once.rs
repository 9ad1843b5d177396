//! Two angelia processes at once.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{machine::Machine, transcript::Transcript};

#[test]
fn the_second_one_waits_for_the_session() {
    let machine = Machine::new();
    let first = machine.start(&["run", "--json", "-s", "work", "first\n!tool Wait 1500\nend"]);
    first.wait_for_stdout("first");
    let second = machine.turn(&["-s", "work", "second"]);
    second.completed();
    assert!(second.text().contains("You said: second"), "{second:#?}");
    let first = Transcript::read(&first.wait().assert_code(0).stdout);
    assert_eq!(first.session(), second.session());
    let turns = machine.export(first.session());
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].end(), first.end(), "one after the other");
}

#[test]
fn it_does_not_wait_for_ever_and_names_the_holder() {
    let machine = Machine::new();
    let first = machine.start(&["run", "--json", "-s", "work", "first\n!hang"]);
    first.wait_for_stdout("first");
    let began = Instant::now();
    let second = machine.angelia(&["run", "-s", "work", "second"]);
    second.assert_code(75).assert_stderr(&first.pid().to_string());
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
    let third = machine.angelia(&["run", "--json", "-s", "work", "third"]);
    third.assert_code(75);
    Transcript::read(&third.stdout).failed("unavailable");
    // Other sessions continue meanwhile.
    machine.angelia(&["run", "another session"]).assert_code(0);
    machine.angelia(&["sessions", "list"]).assert_code(0);
    let session = machine
        .list("turns")
        .iter()
        .find(|turn| turn["status"] == "running")
        .unwrap()["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(machine.export(&session).len(), 1, "what was refused has left nothing");
    first.signal(Signal::INT);
    first.wait().assert_code(130);
    machine.angelia(&["run", "-s", "work", "second"]).assert_code(0);
}

#[test]
fn many_at_once_on_an_empty_home_all_work() {
    let machine = Machine::new();
    let running: Vec<_> = (0..8).map(|n| machine.start(&["run", &format!("number {n}")])).collect();
    for (n, running) in running.into_iter().enumerate() {
        running.wait().assert_code(0).assert_stdout(&format!("You said: number {n}"));
    }
    assert_eq!(machine.list("sessions").len(), 8);
}

#[test]
fn many_at_once_on_one_name_share_one_session() {
    let machine = Machine::new();
    let running: Vec<_> = (0..4)
        .map(|n| machine.start(&["run", "--json", "-s", "work", &format!("number {n}")]))
        .collect();
    let mut sessions: Vec<String> = running
        .into_iter()
        .map(|running| Transcript::read(&running.wait().assert_code(0).stdout).session().to_owned())
        .collect();
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(machine.export(&sessions[0]).len(), 4);
}
