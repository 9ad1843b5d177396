//! Conversations across commands: continued by name or id, listed, shown, forked, exported, removed.

use serde_json::Value;

use crate::machine::Machine;

/// Returns the number of the turn within its process, and whether the conversation was resumed.
fn who(machine: &Machine, session: &str) -> (String, bool) {
    let turn = machine.turn(&["-s", session, "!who"]);
    turn.completed();
    let started = turn.first("turn.started");
    (turn.session().to_owned(), started["resumed"].as_bool().unwrap())
}

#[test]
fn a_name_of_ones_own_begins_a_session_and_continues_it() {
    let machine = Machine::new();
    let (first, resumed) = who(&machine, "my work");
    assert!(!resumed);
    let (second, resumed) = who(&machine, "my work");
    assert!(resumed, "another process goes on where the first one stopped");
    assert_eq!(first, second);
    assert_ne!(who(&machine, "other work").0, first);
    let (by_id, resumed) = who(&machine, &first);
    assert!(resumed);
    assert_eq!(by_id, first);
    assert_eq!(machine.export(&first).len(), 3);
}

#[test]
fn a_name_means_the_same_with_and_without_the_daemon() {
    let machine = Machine::new();
    let (first, _) = who(&machine, "work");
    let serving = machine.serve();
    let (second, resumed) = who(&machine, "work");
    assert!(resumed);
    let (new, _) = who(&machine, "begun in the daemon / ü?&");
    serving.stop().assert_code(0);
    assert_eq!(first, second);
    let (later, resumed) = who(&machine, "begun in the daemon / ü?&");
    assert!(resumed);
    assert_eq!(new, later);
}

#[test]
fn a_session_keeps_what_it_was_begun_with() {
    let machine = Machine::new();
    machine.configure("profiles: {other: {executor: parrot}}");
    who(&machine, "work");
    let run =
        |options: &[&str]| machine.angelia(&[&["run", "-s", "work"], options, &["hi"]].concat());
    run(&["-p", "other"]).assert_code(2).assert_stderr("profile `default`");
    run(&["--cwd", "/"]).assert_code(2).assert_stderr("directory");
    run(&["-p", "default"]).assert_code(0);
}

#[test]
fn lists_are_newest_first_and_have_headers() {
    let machine = Machine::new();
    machine.angelia(&["sessions", "list"]).assert_code(0);
    machine.angelia(&["turns", "list"]).assert_code(0);
    let one = machine.turn(&["the first one"]);
    let two = machine.turn(&["the second\nwith more lines"]);
    let listed = machine.angelia(&["sessions", "list"]);
    listed.assert_code(0);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{listed:#?}");
    assert!(lines[0].starts_with("ID ") && lines[0].ends_with("FIRST WORDS"), "{listed:#?}");
    assert!(lines[1].ends_with("the second") && lines[1].contains("terminal"), "{listed:#?}");
    assert!(lines[2].ends_with("the first one") && lines[2].contains("parrot"), "{listed:#?}");
    assert_eq!(machine.angelia(&["sessions", "list", "-n", "1"]).stdout.lines().count(), 2);

    let sessions = machine.list("sessions");
    assert_eq!(sessions[0]["id"], two.session());
    let cwd = machine.work().canonicalize().unwrap();
    assert_eq!(sessions[0]["cwd"].as_str(), cwd.to_str());
    let turns = machine.list("turns");
    assert_eq!(turns[0]["id"], two.turn());
    assert_eq!(turns[1]["text"].as_str(), Some(one.text()));
    let of_one = machine.angelia(&["turns", "list", "-s", one.session()]);
    assert_eq!(of_one.assert_code(0).stdout.lines().count(), 2);
    of_one.assert_stdout("the first one");
}

#[test]
fn a_session_is_shown_with_its_turns() {
    let machine = Machine::new();
    let one = machine.turn(&["-s", "work", "hello"]);
    let two = machine.turn(&["-s", "work", "!fail auth"]);
    let shown = machine.angelia(&["sessions", "show", one.session()]);
    shown
        .assert_code(0)
        .assert_stdout("parrot")
        .assert_stdout(one.turn())
        .assert_stdout(two.turn())
        .assert_stdout("completed")
        .assert_stdout("failed");
    let shown = machine.angelia(&["sessions", "show", "--json", one.session()]);
    let json: Value = serde_json::from_str(&shown.assert_code(0).stdout).unwrap();
    assert_eq!(json["id"], one.session());
    assert!(json["native_session_id"].is_string());
    let shown = machine.angelia(&["turns", "show", two.turn()]);
    shown.assert_code(0).assert_stdout("failed").assert_stdout("auth").assert_stdout(one.session());
}

#[test]
fn resume_continues_what_exists() {
    let machine = Machine::new();
    let one = machine.turn(&["hello"]);
    let ran = machine.angelia(&["sessions", "resume", one.session(), "again"]);
    ran.assert_code(0).assert_stdout("You said: again");
    machine.angelia(&["sessions", "resume", "a name", "again"]).assert_code(2);
    assert_eq!(machine.export(one.session()).len(), 2);
}

#[test]
fn a_fork_is_a_session_of_its_own() {
    let machine = Machine::new();
    for through_the_daemon in [false, true] {
        let serving = through_the_daemon.then(|| machine.serve());
        let one = machine.turn(&["hello"]);
        let forked = machine.angelia(&["sessions", "fork", one.session()]);
        let fork = forked.assert_code(0).stdout.trim().to_owned();
        let turn = machine.turn(&["-s", &fork, "on the fork"]);
        turn.completed();
        assert_eq!(turn.session(), fork);
        assert_eq!(machine.export(one.session()).len(), 1, "the original is left alone");
        let shown = machine.angelia(&["sessions", "show", "--json", &fork]);
        let json: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(json["forked_from"], one.session());
        drop(serving);
    }
}

#[test]
fn what_is_deleted_is_gone() {
    let machine = Machine::new();
    for through_the_daemon in [false, true] {
        let serving = through_the_daemon.then(|| machine.serve());
        let one = machine.turn(&["-s", "work", "SECRET-OF-MINE"]);
        let two = machine.turn(&["hello"]);
        let three = machine.turn(&["stays"]);
        let deleted = machine.angelia(&["sessions", "delete", one.session(), two.session()]);
        deleted.assert_code(0).assert_stdout(&format!("deleted: {}\n", one.session()));
        deleted.assert_stdout(&format!("deleted: {}\n", two.session()));
        machine
            .angelia(&["sessions", "show", one.session()])
            .assert_code(1)
            .assert_stderr("no such session");
        machine.angelia(&["turns", "show", one.turn()]).assert_code(1);
        machine
            .angelia(&["sessions", "delete", one.session()])
            .assert_code(1)
            .assert_stderr("no such session");
        machine.angelia(&["sessions", "show", three.session()]).assert_code(0);
        // The name is free again.
        assert_ne!(who(&machine, "work").0, one.session());
        drop(serving);
    }
}

#[test]
fn an_export_has_every_turn_in_order() {
    let machine = Machine::new();
    let texts = ["one", "two", "three"];
    let session = texts.map(|text| machine.turn(&["-s", "work", text]).session().to_owned());
    let turns = machine.export(&session[0]);
    assert_eq!(turns.len(), 3);
    for (turn, text) in turns.iter().zip(texts) {
        turn.ends_once();
        assert!(turn.text().contains(&format!("You said: {text}")), "{turn:#?}");
    }
}
