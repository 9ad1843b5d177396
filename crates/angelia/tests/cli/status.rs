//! Tests of `status` with a daemon and without, and of `usage`.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::{
    machine::{Machine, ProgramOutput, RunningCommand, SAYS_AND_HANGS},
    tmux::TmuxTerminal,
};

fn parse(ran: &ProgramOutput) -> Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn without_a_daemon_the_record_speaks() {
    let machine = Machine::new();
    machine.turn(&["hello"]).completed();
    let ran = machine.angelia(&["status"]);
    ran.assert_code(69).assert_stdout("not running").assert_stdout("1 turn");
    let status = parse(machine.angelia(&["ps", "--json"]).assert_code(69));
    assert_eq!(status["daemon"]["running"], false);
    assert_eq!((&status["agents"], &status["turns"]), (&json!([]), &json!([])));
    assert_eq!(status["usage_today"]["turns"], 1);
}

#[test]
fn with_a_daemon_its_agents_and_turns_are_shown() {
    let machine = Machine::new();
    let serving = machine.serve();
    machine.turn(&["-s", "idle one", "hello"]).completed();
    let hanging = machine.start(&["run", "-s", "busy one", SAYS_AND_HANGS]);
    hanging.wait_for_stdout("said before");
    let status = parse(machine.angelia(&["status", "--json"]).assert_code(0));
    let daemon = &status["daemon"];
    assert_eq!((&daemon["running"], &daemon["pid"]), (&json!(true), &json!(serving.running.pid())));
    let address = std::fs::read_to_string(machine.home().join("run/http.addr")).unwrap();
    assert_eq!(daemon["address"], address.trim());
    let path = machine.home().join("config.yaml").display().to_string();
    assert_eq!(daemon["config"]["path"], path);
    let agents = status["agents"].as_array().unwrap();
    for state in ["busy", "idle"] {
        let agent = agents.iter().find(|agent| agent["state"] == state).unwrap();
        assert_eq!(agent["executor"], "parrot");
        assert!(agent["rss_bytes"].as_u64() > Some(1_000_000), "{agent}");
        assert!(agent["pid"].as_u64() > Some(1) && agent["processes"].as_u64() >= Some(1));
    }
    let turns = status["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &turns[0]["status"]), (1, &json!("running")));
    let shown = machine.angelia(&["status"]);
    shown.assert_code(0).assert_stdout("busy").assert_stdout("MB").assert_stdout("said before");
    let turn = turns[0]["id"].as_str().unwrap();
    machine.angelia(&["turns", "interrupt", turn]).assert_code(0);
    hanging.wait();
    serving.stop();
}

#[test]
fn usage_is_the_same_with_a_daemon_and_without() {
    let machine = Machine::new();
    let turn = machine.turn(&["-s", "work", "hello"]);
    let usage = &turn.completed().end()["usage"];
    let mut reports = Vec::new();
    for through_the_daemon in [false, true] {
        let serving = through_the_daemon.then(|| machine.serve());
        let ran = machine.angelia(&["usage", "--by", "session", "--since", "1d", "--json"]);
        let mut report = parse(ran.assert_code(0));
        report["since"] = Value::Null;
        reports.push(report);
        machine.angelia(&["usage"]).assert_code(0).assert_stdout("TURNS").assert_stdout("DAY");
        drop(serving);
    }
    assert_eq!(reports[0], reports[1]);
    let row = &reports[0]["data"][0];
    assert_eq!((&row["key"], &row["turns"]), (&json!(turn.session()), &json!(1)));
    assert_eq!(
        (&row["output_tokens"], &row["cost_usd"]),
        (&usage["output_tokens"], &usage["cost_usd"])
    );
    assert_eq!(reports[0]["total"]["output_tokens"], row["output_tokens"]);
    machine.angelia(&["usage", "--by", "nonsense"]).assert_code(2);
    machine.angelia(&["usage", "--since", "nonsense"]).assert_code(2);
    // A deleted conversation was paid for all the same.
    machine.angelia(&["sessions", "delete", turn.session()]).assert_code(0);
    let report = parse(machine.angelia(&["usage", "--by", "session", "--json"]).assert_code(0));
    assert_eq!((&report["data"][0]["key"], &report["data"][0]["turns"]), (&Value::Null, &json!(1)));
}

#[test]
fn a_watched_status_is_redrawn_in_place() {
    let machine = Machine::with_shell();
    let serving = machine.serve();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA status --watch");
    terminal.wait_for("daemon    running");
    let session = machine.turn(&["hello"]).session().to_owned();
    let text = terminal.wait_for(&session[..13]);
    assert_eq!(text.matches("daemon    running").count(), 1, "{text}");
    terminal.resize(40);
    terminal.wait_for("\n          http://127.0.0.1");
    let text = terminal.text();
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    terminal.type_keys(&["q"]);
    let text = terminal.wait_for_end(0);
    assert!(!text.contains("running"), "the screen from before is back: {text}");
    drop(terminal);
    let again = TmuxTerminal::open(&machine, 80, "$ANGELIA status -w");
    again.wait_for("running");
    again.type_keys(&["C-c"]);
    again.wait_for_end(0);
    serving.stop();
}

#[test]
fn a_watched_status_without_a_screen_is_written_again() {
    let machine = Machine::new();
    let mut command = machine.command(&["status", "-w", "--json"]);
    command.env("TERM", "dumb");
    let running = RunningCommand::spawn(command, Stdio::null());
    running.wait_for_stdout("\n{");
    running.signal(rustix::process::Signal::INT);
    let ran = running.wait();
    ran.assert_code(69);
    assert!(!ran.stdout.contains('\x1b'), "{ran:?}");
}
