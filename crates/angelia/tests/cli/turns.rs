//! Single turns in the daemon: watched and interrupted by other commands, and ended with the
//! daemon.

use rustix::process::Signal;

use crate::{
    agent_processes::agent_pids,
    http,
    machine::{Machine, SAYS_AND_HANGS, until},
    transcript::Transcript,
};

#[test]
fn a_turn_is_watched_from_its_beginning_to_its_end() {
    let machine = Machine::new();
    let serving = machine.serve();
    let session = http::session(&machine, &serving.socket, "default");
    let turn = http::submit(&serving.socket, &session, "!words 3\n!tool Wait 300\nthe end");
    let watching = machine.start(&["turns", "watch", "--json", &turn]);
    let shown = machine.start(&["turns", "watch", &turn]);
    let seen = Transcript::read(&watching.wait().assert_code(0).stdout);
    assert_eq!(seen.turn(), turn);
    seen.completed();
    shown.wait().assert_code(0).assert_stdout("word1 word2 word3").assert_stdout("the end");
    // A finished turn can be watched again.
    let again = machine.angelia(&["turns", "watch", "--json", &turn]);
    let again = Transcript::read_export(&format!("session\n{{}}\n{}", again.assert_code(0).stdout));
    assert_eq!(again[0].end(), seen.end());
}

#[test]
fn whoever_only_watches_stops_nothing() {
    let machine = Machine::new();
    let serving = machine.serve();
    let session = http::session(&machine, &serving.socket, "default");
    let turn = http::submit(&serving.socket, &session, SAYS_AND_HANGS);
    let watching = machine.start(&["turns", "watch", &turn]);
    watching.wait_for_stdout("said before");
    watching.signal(Signal::INT);
    watching.wait().assert_code(130);
    assert_eq!(http::turn(&serving.socket, &turn)["status"], "running");

    let interrupted = machine.angelia(&["turns", "interrupt", &turn]);
    interrupted.assert_code(0).assert_stdout(&format!("interrupted: {turn}\n"));
    until("the turn ends", || http::turn(&serving.socket, &turn)["status"] == "interrupted");
    machine
        .angelia(&["turns", "show", &turn])
        .assert_code(0)
        .assert_stdout("interrupted")
        .assert_stdout("said before");
    machine.angelia(&["turns", "interrupt", &turn]).assert_code(1).assert_stderr("is over already");
}

#[test]
fn an_interruption_ends_what_run_shows_elsewhere() {
    let machine = Machine::new();
    let serving = machine.serve();
    let running = machine.start(&["run", "--json", SAYS_AND_HANGS]);
    running.wait_for_stdout("said before");
    let turn = machine.list("turns")[0]["id"].as_str().unwrap().to_owned();
    let killed = machine.angelia(&["turns", "interrupt", "--kill", &turn]);
    killed.assert_code(0).assert_stdout(&format!("killed: {turn}\n"));
    let ran = running.wait();
    ran.assert_code(130);
    assert_eq!(Transcript::read(&ran.stdout).end()["status"], "interrupted");
    serving.stop().assert_code(0);
}

#[test]
fn without_a_daemon_nothing_can_be_interrupted_from_outside() {
    let machine = Machine::new();
    let running = machine.start(&["run", "--json", SAYS_AND_HANGS]);
    running.wait_for_stdout("said before");
    let turn = machine.list("turns")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(machine.list("turns")[0]["status"], "running");
    machine.angelia(&["turns", "interrupt", &turn]).assert_code(1).assert_stderr("Ctrl-C");
    running.signal(Signal::INT);
    running.wait().assert_code(130);
    machine.angelia(&["turns", "interrupt", &turn]).assert_code(1).assert_stderr("over already");
}

#[test]
fn turns_of_one_session_wait_for_each_other() {
    let machine = Machine::new();
    let serving = machine.serve();
    let session = http::session(&machine, &serving.socket, "default");
    let first = http::submit(&serving.socket, &session, "first\n!hang");
    let second = machine.start(&["run", "--json", "-s", &session, "second"]);
    until("it waits", || machine.list("turns").iter().any(|turn| turn["status"] == "queued"));
    machine.angelia(&["turns", "interrupt", &first]).assert_code(0);
    let ran = second.wait();
    ran.assert_code(0);
    assert!(Transcript::read(&ran.stdout).text().contains("You said: second"));
}

#[test]
fn a_queue_has_an_end() {
    let machine = Machine::new();
    machine.configure("sessions: {max_queued_turns: 2}");
    let serving = machine.serve();
    let session = http::session(&machine, &serving.socket, "default");
    for _ in 0..3 {
        http::submit(&serving.socket, &session, "!hang");
    }
    machine.angelia(&["run", "-s", &session, "one too many"]).assert_code(75);
    serving.stop().assert_code(0);
    for turn in machine.export(&session) {
        turn.ends_once();
    }
    assert!(agent_pids(&machine).is_empty());
}
