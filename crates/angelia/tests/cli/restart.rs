//! `angelia restart`: running turns end, queued ones go on, those that wait for somebody are waited
//! for, and none vanishes.

use std::{
    fs,
    net::TcpStream,
    os::unix::fs::symlink,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    agent_processes::agent_pids,
    http,
    lifecycle::BackgroundMachine,
    machine::{ANGELIA, RunningCommand, until},
    transcript::Transcript,
};

fn submit(background: &BackgroundMachine, session: &str, input: &str) -> String {
    http::submit(&background.socket(), session, input)
}

fn session(background: &BackgroundMachine) -> String {
    http::session(&background.0, &background.socket(), "default")
}

fn status(background: &BackgroundMachine, turn: &str) -> String {
    let turn = http::turn(&background.socket(), turn);
    turn["status"].as_str().unwrap_or_default().to_owned()
}

/// Submits a turn that asks a person.
fn asking(background: &BackgroundMachine, session: &str) -> String {
    let turn = submit(background, session, "!ask make it so\nafterwards");
    until("it asks", || status(background, &turn) == "awaiting_approval");
    turn
}

fn approve(background: &BackgroundMachine) {
    let pending = background.0.list("approvals");
    let id = pending[0]["id"].as_str().unwrap();
    background.0.angelia(&["approvals", "approve", id]).assert_code(0);
}

/// Starts a restart and waits until it says what it waits for.
fn waiting_restart(background: &BackgroundMachine, turn: &str) -> RunningCommand {
    let restarting = background.0.start(&["restart"]);
    until("it says what it waits for", || restarting.stderr().contains(turn));
    restarting
}

/// The number of times that a daemon has begun to serve.
fn starts(background: &BackgroundMachine) -> usize {
    let log = fs::read_to_string(background.0.home().join("logs/angelia.log")).unwrap();
    log.matches("listens on http://").count()
}

/// Asserts that new work is refused with a time to come back.
fn assert_refused(background: &BackgroundMachine, session: &str) {
    let path = format!("/api/sessions/{session}/turns");
    let refused = http::request_api(&background.socket(), "POST", &path, &json!({"input": "x"}));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(!refused.header("retry-after").is_empty(), "{refused:?}");
}

#[test]
fn the_process_and_its_address_stay_and_no_connection_is_refused() {
    let background = BackgroundMachine::started("");
    let address = fs::read_to_string(background.0.home().join("run/http.addr")).unwrap();
    let pid = background.pid();
    let is_over = Arc::new(AtomicBool::new(false));
    let knocking = thread::spawn({
        let (address, is_over) = (address.trim().to_owned(), Arc::clone(&is_over));
        move || {
            let mut connections = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                connections.push(TcpStream::connect(&address).map_err(|error| error.to_string()));
                thread::sleep(Duration::from_millis(5));
            }
            connections.into_iter().filter_map(Result::err).collect::<Vec<_>>()
        }
    });
    let restarted = background.0.angelia(&["restart"]);
    is_over.store(true, Ordering::Relaxed);
    restarted.assert_code(0).assert_stdout("angelia has restarted").assert_stdout(address.trim());
    assert_eq!(knocking.join().unwrap(), [""; 0]);
    assert_eq!((background.pid(), starts(&background)), (pid, 2));
    assert_eq!(fs::read_to_string(background.0.home().join("run/http.addr")).unwrap(), address);
    background.0.angelia(&["run", "hello"]).assert_code(0).assert_stdout("hello");
    // Nothing of the old program is left: no zombie, and one watcher.
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    for child in children.split_ascii_whitespace() {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        assert!(!stat.contains(") Z "), "{stat}");
    }
    background.0.angelia(&["stop"]).assert_code(0);
    background.0.angelia(&["restart"]).assert_code(0).assert_stderr("was not running");
    assert!(TcpStream::connect(address.trim()).is_err(), "no child has kept the listener");
}

#[test]
fn a_running_turn_ends_first() {
    let background = BackgroundMachine::started("");
    let other = session(&background);
    let running = background.0.start(&["run", "--json", "!words 30 50"]);
    running.wait_for_stdout("word2");
    let restarting = background.0.start(&["restart"]);
    until("it waits", || restarting.stderr().contains("waiting for 1 running turn"));
    assert_refused(&background, &other);
    assert_eq!(http::get_over_tcp(&background.0, "/healthz", "").body["status"], "draining");
    let ran = running.wait();
    ran.assert_code(0);
    assert!(Transcript::read(&ran.stdout).completed().text().contains("word30"));
    restarting.wait().assert_code(0).assert_stdout("has restarted");
    assert_eq!(starts(&background), 2);
}

#[test]
fn a_turn_that_outlasts_the_drain_fails_as_unavailable() {
    let background = BackgroundMachine::started("drain: 1s\n");
    let running = background.0.start(&["run", "--json", "said\n!tool Wait\n!hang"]);
    running.wait_for_stdout("said");
    background.0.angelia(&["restart"]).assert_code(0);
    let ran = running.wait();
    ran.assert_code(69);
    let turn = Transcript::read(&ran.stdout);
    turn.failed("unavailable");
    assert!(turn.text().contains("said"), "{turn:#?}");
    assert_eq!(turn.end()["reason"], "restart");
    assert_eq!(background.0.export(turn.session())[0].end(), turn.end(), "it is recorded so");
    // A probe of the new daemon may run for a moment.
    until("its agent has gone", || agent_pids(&background.0).len() <= 1);
}

#[test]
fn queued_turns_go_on_in_the_new_one() {
    let background = BackgroundMachine::started("");
    let session = session(&background);
    let first = submit(&background, &session, "!words 20 50");
    let queued: Vec<String> =
        ["second", "third"].map(|input| submit(&background, &session, input)).into();
    let watching = background.0.start(&["turns", "watch", "--json", &queued[1]]);
    let restarting = background.0.angelia(&["restart"]);
    restarting.assert_code(0).assert_stderr("2 queued turns will continue");
    let seen = watching.wait();
    let seen = Transcript::read(&seen.assert_code(0).stdout);
    assert!(seen.completed().text().contains("third"), "{seen:#?}");
    for turn in [&first, &queued[0], &queued[1]] {
        assert_eq!(status(&background, turn), "completed");
    }
    let turns = background.0.export(&session);
    assert_eq!(turns.len(), 3);
    for turn in &turns {
        turn.ends_once();
    }
    assert_eq!(starts(&background), 2);
}

#[test]
fn a_turn_that_waits_for_a_decision_is_waited_for() {
    let background = BackgroundMachine::started("");
    let session = session(&background);
    let turn = asking(&background, &session);
    let queued = submit(&background, &session, "and then");
    let restarting = waiting_restart(&background, &turn);
    assert!(restarting.stderr().contains("angelia approvals list"), "{}", restarting.stderr());
    assert_refused(&background, &session);
    let second = background.0.angelia(&["restart"]);
    second.assert_code(75).assert_stderr("already under way");
    approve(&background);
    restarting.wait().assert_code(0).assert_stdout("has restarted");
    assert_eq!(status(&background, &turn), "completed");
    until("the queued turn runs", || status(&background, &queued) == "completed");
    assert_eq!(starts(&background), 2);
}

#[test]
fn now_ends_turns_that_wait_and_keeps_those_that_are_queued() {
    let background = BackgroundMachine::started("");
    let session = session(&background);
    let turn = asking(&background, &session);
    let queued = submit(&background, &session, "and then");
    background.0.angelia(&["restart", "--now"]).assert_code(0).assert_stdout("has restarted");
    let ended = http::turn(&background.socket(), &turn);
    assert_eq!(ended["status"], "failed", "{ended:#}");
    assert_eq!(ended["failure"]["kind"], "unavailable", "{ended:#}");
    until("the queued turn runs", || status(&background, &queued) == "completed");
    assert_eq!(background.0.list("approvals"), [Value::Null; 0], "nothing is left to decide");
}

/// The client that asked for the restart goes away: by Ctrl-C, or without a word.
#[test]
fn a_restart_is_taken_back_when_its_caller_goes() {
    for signal in [Signal::INT, Signal::KILL] {
        let background = BackgroundMachine::started("");
        let session = session(&background);
        let other = http::session(&background.0, &background.socket(), "default");
        let turn = asking(&background, &session);
        let queued = submit(&background, &session, "and then");
        let restarting = waiting_restart(&background, &turn);
        assert_refused(&background, &other);
        restarting.signal(signal);
        let ended = restarting.wait();
        if signal == Signal::INT {
            ended.assert_code(130).assert_stderr("still runs");
        }
        until("it takes work again", || {
            let path = format!("/api/sessions/{other}/turns");
            let socket = background.socket();
            http::request_api(&socket, "POST", &path, &json!({"input": "new"})).status == 202
        });
        approve(&background);
        for turn in [&turn, &queued] {
            until("it ends", || status(&background, turn) == "completed");
        }
        assert_eq!(starts(&background), 1);
    }
}

#[test]
fn a_daemon_that_is_killed_meanwhile_is_replaced() {
    let background = BackgroundMachine::started("");
    let session = session(&background);
    let turn = asking(&background, &session);
    let queued = submit(&background, &session, "and then");
    let pid = background.pid();
    let restarting = waiting_restart(&background, &turn);
    let raw = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(raw, Signal::KILL).unwrap();
    let restarted = restarting.wait();
    restarted.assert_code(0).assert_stderr("starting another one").assert_stdout("is running at");
    assert_ne!(background.pid(), pid);
    for turn in [&turn, &queued] {
        let ended = http::turn(&background.socket(), turn);
        assert_eq!(ended["status"], "failed", "reported, not lost: {ended:#}");
    }
    background.0.angelia(&["run", "hello"]).assert_code(0);
}

/// After an upgrade, the path of the program leads to the new version.
#[test]
fn the_program_is_looked_up_again() {
    let background = BackgroundMachine::new("");
    let bin = background.0.work();
    for version in ["old", "new"] {
        fs::hard_link(ANGELIA, bin.join(version))
            .or_else(|_| fs::copy(ANGELIA, bin.join(version)).map(drop))
            .unwrap();
    }
    let link = bin.join("angelia");
    symlink("old", &link).unwrap();
    let run = |argument: &str| {
        let mut command = background.0.program(&link);
        command.arg(argument);
        RunningCommand::spawn(command, Stdio::null()).wait()
    };
    run("start").assert_code(0);
    let exe = format!("/proc/{}/exe", background.pid());
    assert!(fs::read_link(&exe).unwrap().ends_with("old"));
    fs::remove_file(&link).unwrap();
    symlink("new", &link).unwrap();
    run("restart").assert_code(0);
    assert!(fs::read_link(&exe).unwrap().ends_with("new"));
}
