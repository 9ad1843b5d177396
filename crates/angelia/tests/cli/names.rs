//! Tests of the words that stand for an id: a name, `last`, the start of an id; and of the ids in
//! lists.

use std::process::Stdio;

use crate::machine::{ANGELIA, Machine, ProgramOutput, RunningCommand};

/// Returns the first word of the lines of a list, without its header.
fn listed_ids(machine: &Machine, list: &[&str]) -> Vec<String> {
    let listed = machine.angelia(list);
    listed.assert_code(0);
    let rows = listed.stdout.lines().skip(1);
    rows.map(|row| row.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Runs a check without a daemon, then with one.
fn with_and_without_daemon(machine: &Machine, check: impl Fn(&Machine)) {
    check(machine);
    let serving = machine.serve();
    check(machine);
    serving.stop().assert_code(0);
}

#[test]
fn whatever_a_list_prints_can_be_pasted_back() {
    let machine = Machine::new();
    let turns: Vec<_> = (0..4).map(|_| machine.turn(&["hello"])).collect();
    with_and_without_daemon(&machine, |machine| {
        let sessions = listed_ids(machine, &["sessions", "list"]);
        assert_eq!(sessions.len(), 4);
        for (short, turn) in sessions.iter().rev().zip(&turns) {
            assert!(short.len() >= 8 && short.len() < 36, "{short}");
            let shown = machine.angelia(&["sessions", "show", "--json", short]);
            shown.assert_code(0).assert_stdout(turn.session());
        }
        for (short, turn) in listed_ids(machine, &["turns", "list"]).iter().rev().zip(&turns) {
            let shown = machine.angelia(&["turns", "show", "--json", short]);
            shown.assert_code(0).assert_stdout(turn.turn());
        }
    });
    // Also without hyphens, and where a prompt follows.
    let short = &listed_ids(&machine, &["sessions", "list"])[0];
    let again = machine.turn(&["-s", &short.replace('-', ""), "again"]);
    assert_eq!(again.session(), turns[3].session());
}

#[test]
fn a_start_that_fits_several_lists_them_and_exits_2() {
    let machine = Machine::new();
    let one = machine.turn(&["-s", "work", "hello"]);
    let two = machine.turn(&["the other"]);
    // Ids start with the time.
    let common: String = std::iter::zip(one.session().chars(), two.session().chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect();
    with_and_without_daemon(&machine, |machine| {
        for command in ["show", "export", "fork", "delete"] {
            let ran = machine.angelia(&["sessions", command, &common]);
            ran.assert_code(2).assert_stderr("fits 2 sessions").assert_stderr("work");
            ran.assert_stderr("the other").assert_stderr("hint: write more of the id");
        }
        machine.angelia(&["run", "-s", &common, "hi"]).assert_code(2).assert_stderr("fits 2");
        machine.angelia(&["sessions", "show", &common[..3]]).assert_code(2);
        machine
            .angelia(&["sessions", "show", "ffff"])
            .assert_code(2)
            .assert_stderr("sessions list");
        let turn = machine.angelia(&["turns", "show", &one.turn()[..4]]);
        turn.assert_code(2).assert_stderr("turns");
    });
    assert_eq!(machine.list("sessions").len(), 2, "nothing was begun, forked or deleted");
}

#[test]
fn a_name_works_wherever_an_id_does() {
    let machine = Machine::new();
    let one = machine.turn(&["-s", "work", "hello"]);
    let two = machine.turn(&["other"]);
    with_and_without_daemon(&machine, |machine| {
        let shown = machine.angelia(&["sessions", "show", "--json", "work"]);
        shown.assert_code(0).assert_stdout(one.session()).assert_stdout(r#""name":"work""#);
        machine.angelia(&["sessions", "export", "work"]).assert_code(0).assert_stdout(one.turn());
        // The newest turn of the session.
        let shown = machine.angelia(&["turns", "show", "--json", "work"]);
        shown.assert_code(0).assert_stdout(one.turn());
        machine.angelia(&["turns", "watch", "work"]).assert_code(0).assert_stdout("hello");
        let listed = machine.angelia(&["turns", "list", "-s", "work"]);
        assert_eq!(listed.assert_code(0).stdout.lines().count(), 2);
        let shown = machine.angelia(&["turns", "show", "--json", "last"]);
        shown.assert_code(0).assert_stdout(two.turn());
        machine.angelia(&["approvals", "approve", "work"]).assert_code(2);
        machine.angelia(&["approvals", "deny", "last"]).assert_code(2);
    });
    let fork = machine.angelia(&["sessions", "fork", "work"]);
    fork.assert_code(0);
    let resumed = machine.angelia(&["sessions", "resume", "work", "again"]);
    resumed.assert_code(0).assert_stdout("You said: again");
    machine.angelia(&["sessions", "delete", "work"]).assert_code(0);
    machine.angelia(&["sessions", "show", "work"]).assert_code(2);
}

#[test]
fn an_exact_name_wins_over_the_start_of_an_id() {
    let machine = Machine::new();
    let one = machine.turn(&["hello"]);
    let start = &one.session()[..4];
    // Four digits are the start of an id, so only a session that exists can have them as its name.
    machine.configure("");
    let serving = machine.serve();
    let body = format!(r#"{{"name":"{start}","cwd":"/"}}"#);
    let socket = machine.home().join("run/angelia.sock");
    let created = machine_with_shell(
        &machine,
        &format!(
            "curl -sS --unix-socket '{}' http://localhost/api/sessions -d '{body}' \
         -H 'content-type: application/json'",
            socket.display()
        ),
    );
    created.assert_code(0).assert_stdout(start);
    for _ in 0..2 {
        let shown = machine.angelia(&["sessions", "show", "--json", start]);
        shown.assert_code(0).assert_stdout(&format!(r#""name":"{start}""#));
        assert!(!shown.stdout.contains(one.session()));
    }
    serving.stop().assert_code(0);
    let shown = machine.angelia(&["sessions", "show", "--json", start]);
    shown.assert_code(0).assert_stdout(&format!(r#""name":"{start}""#));
}

fn machine_with_shell(machine: &Machine, script: &str) -> ProgramOutput {
    let mut command = machine.program("/bin/sh");
    command.args(["-c", script]).env("PATH", "/usr/bin:/bin");
    RunningCommand::spawn(command, Stdio::null()).wait()
}

#[test]
fn last_is_the_session_that_was_used_last() {
    let machine = Machine::new();
    machine.angelia(&["run", "-s", "last", "hi"]).assert_code(2).assert_stderr("no session yet");
    machine.angelia(&["turns", "show", "last"]).assert_code(2).assert_stderr("no turn yet");
    let one = machine.turn(&["-s", "one", "hello"]);
    let two = machine.turn(&["-s", "two", "hello"]);
    assert_eq!(machine.turn(&["-s", "last", "again"]).session(), two.session());
    machine.turn(&["-s", "one", "again"]);
    assert_eq!(machine.turn(&["-s", "last", "again"]).session(), one.session());
    let serving = machine.serve();
    machine.turn(&["-s", "two", "again"]);
    assert_eq!(machine.turn(&["-s", "last", "again"]).session(), two.session());
    serving.stop().assert_code(0);
}

#[test]
fn a_mistyped_id_begins_no_session() {
    let machine = Machine::new();
    let one = machine.turn(&["hello"]);
    let mut wrong = one.session()[..12].to_owned();
    wrong.push_str(if one.session()[12..].starts_with('f') { "0" } else { "f" });
    let ran = machine.angelia(&["run", "-s", &wrong, "hi"]);
    ran.assert_code(2).assert_stderr("cannot look like one");
    let unknown = "0192abcd-0000-7000-8000-000000000000";
    machine.angelia(&["run", "-s", unknown, "hi"]).assert_code(1);
    assert_eq!(machine.list("sessions").len(), 1);
    // Words that happen to be of hexadecimal letters are names.
    machine.turn(&["-s", "deadbeef", "hello"]).completed();
    assert_eq!(machine.list("sessions").len(), 2);
}

#[test]
fn an_empty_name_or_one_with_control_characters_begins_no_session() {
    let machine = Machine::new();
    for (name, why) in
        [("", "is empty"), ("  ", "is empty"), ("a\nb\u{1b}[2J", "control characters")]
    {
        machine.angelia(&["run", "-s", name, "hi"]).assert_code(2).assert_stderr(why);
    }
    machine.angelia(&["run", "-m", "", "hi"]).assert_code(2).assert_stderr("--model");
    assert_eq!(machine.list("sessions").len(), 0);
}

#[test]
fn unknown_ids_are_told_in_plain_words() {
    let machine = Machine::new();
    for (command, words) in [
        (["sessions", "show"], "no session has this name, or an id that starts with `beef`"),
        (["turns", "show"], "no turn has an id that starts with `beef`"),
        (["approvals", "show"], "no approval has an id that starts with `beef`"),
        (["schedule", "show"], "no schedule has an id that starts with `beef`"),
    ] {
        let ran = machine.angelia(&[command[0], command[1], "beef"]);
        ran.assert_code(2).assert_stderr(words).assert_stderr("list` prints them");
    }
}

#[test]
fn an_empty_list_says_so_and_its_json_is_empty() {
    let machine = Machine::new();
    for (list, words) in [
        ("sessions", "there are no sessions; `angelia run` starts one"),
        ("turns", "there are no turns; `angelia run` runs one"),
        ("schedule", "there are no schedules; `angelia schedule add` makes one"),
    ] {
        let ran = machine.angelia(&[list, "list"]);
        ran.assert_code(0).assert_stderr(words);
        assert_eq!(ran.stdout, "", "{list}");
        let ran = machine.angelia(&[list, "list", "--json"]);
        assert_eq!((&*ran.assert_code(0).stdout, &*ran.stderr), ("", ""), "{list}");
    }
}

#[test]
fn a_run_from_elsewhere_continues_in_the_sessions_directory_and_says_so() {
    let machine = Machine::new();
    let one = machine.turn(&["-s", "work", "hello"]);
    let elsewhere = machine.place.root().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    with_and_without_daemon(&machine, |machine| {
        let mut command = machine.command(&["run", "-s", "work", "again"]);
        command.current_dir(&elsewhere);
        let ran = RunningCommand::spawn(command, Stdio::null()).wait();
        ran.assert_code(0).assert_stderr("continues in its own directory, ");
        let here = machine.angelia(&["run", "-s", "work", "again"]);
        assert!(!here.assert_code(0).stderr.contains("its own directory"), "{here:#?}");
        let mut command = machine.command(&["run", "-c", "again"]);
        command.current_dir(&elsewhere);
        let none = RunningCommand::spawn(command, Stdio::null()).wait();
        none.assert_code(2).assert_stderr("no session works in");
    });
    assert_eq!(machine.export(one.session()).len(), 5);
}

#[test]
fn dash_c_continues_the_last_session_of_this_directory() {
    let machine = Machine::new();
    machine.angelia(&["run", "-c", "hi"]).assert_code(2).assert_stderr("no session works in");
    let one = machine.turn(&["-s", "one", "hello"]);
    let elsewhere = machine.place.root().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let other = machine.turn(&["--cwd", elsewhere.to_str().unwrap(), "hello"]);
    with_and_without_daemon(&machine, |machine| {
        assert_eq!(machine.turn(&["-c", "again"]).session(), one.session());
        let there = machine.turn(&["-c", "--cwd", elsewhere.to_str().unwrap(), "again"]);
        assert_eq!(there.session(), other.session());
    });
    machine.angelia(&["run", "-c", "-s", "one", "hi"]).assert_code(2);
}

/// Runs a command at a terminal of this width.
fn at_terminal(machine: &Machine, columns: u16, arguments: &str) -> Vec<String> {
    let mut command = machine.program("/usr/bin/script");
    let line = format!("stty -echo cols {columns}; exec '{ANGELIA}' {arguments}");
    command.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
    let ran = RunningCommand::spawn(command, Stdio::null()).wait();
    ran.assert_code(0);
    ran.stdout.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

#[test]
fn lists_fit_the_terminal_and_tell_how_to_go_on() {
    let machine = Machine::with_shell();
    for number in 0..3 {
        machine.turn(&["-s", &format!("work {number}"), "words that go on and on and on for long"]);
    }
    for columns in [80, 40] {
        for list in ["sessions list", "turns list"] {
            let lines = at_terminal(&machine, columns, list);
            assert_eq!(lines.len(), 4, "{lines:#?}");
            for line in &lines {
                assert!(line.chars().count() <= columns.into(), "{line}");
            }
            assert!(lines[0].starts_with("ID ") && lines[0].ends_with("FIRST WORDS"), "{lines:#?}");
            assert!(lines[1].contains("words that"), "{lines:#?}");
        }
    }
    let lines = at_terminal(&machine, 80, "sessions list -n 2");
    assert!(lines[3].starts_with("more: angelia sessions list --before "), "{lines:#?}");
    let command: Vec<&str> = lines[3].split_whitespace().skip(2).collect();
    assert_eq!(listed_ids(&machine, &command).len(), 1);
    let listed = machine.angelia(&["sessions", "list", "-n", "2"]);
    assert!(!listed.stderr.contains("more:"), "a pipe gets the list alone");
}
