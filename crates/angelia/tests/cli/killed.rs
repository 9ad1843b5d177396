//! `kill -9` of angelia in the middle of its work: the next start finds and ends the leftover
//! processes, and every turn has exactly one end.

use std::{thread, time::Duration};

use angelia_testkit::{model_server::ModelServer, real::RealClaude};
use serde_json::json;

use crate::{
    agent_processes::agent_pids,
    checklist::profile,
    http,
    machine::{Machine, RunningDaemon, SAYS_AND_HANGS, until, within},
};

/// The longest time that leftover processes may live after the next start.
const MAX_ORPHAN_TIME: Duration = Duration::from_secs(5);

/// The id of a session that does not exist.
const ABSENT: &str = "00000000-0000-7000-8000-000000000000";

/// Asserts that every recorded turn has ended exactly once.
fn assert_every_turn_ended_once(machine: &Machine) -> usize {
    let mut count = 0;
    for session in machine.list("sessions") {
        for turn in machine.export(session["id"].as_str().unwrap()) {
            turn.ends_once();
            count += 1;
        }
    }
    count
}

fn assert_no_process_left(machine: &Machine) {
    let gone = within(MAX_ORPHAN_TIME, || agent_pids(machine).is_empty());
    let left: Vec<_> =
        agent_pids(machine).into_iter().map(crate::agent_processes::command_line).collect();
    assert!(gone, "still there: {left:#?}");
}

/// Sixteen sessions with running turns, besides a hundred or more finished turns.
fn start_busy_sessions(
    machine: &Machine,
    serving: &RunningDaemon,
    profile: &str,
    prompts: &[&str],
) -> Vec<String> {
    let sessions = (0..16).map(|n| {
        let session = http::session(machine, &serving.socket, profile);
        http::submit(&serving.socket, &session, prompts[n % prompts.len()]);
        session
    });
    let sessions: Vec<String> = sessions.collect();
    until("all of them run", || {
        let turns =
            http::request_api(&serving.socket, "GET", "/api/sessions?limit=100", &json!(null));
        assert_eq!(turns.status, 200, "{turns:?}");
        agent_pids(machine).len() >= 16
    });
    sessions
}

#[test]
fn two_hundred_turns_and_sixteen_sessions_survive_it() {
    let machine = Machine::new();
    let serving = machine.serve();
    let session = http::session(&machine, &serving.socket, "default");
    for n in 0..200 {
        let turn = http::submit(&serving.socket, &session, &format!("number {n}"));
        let events = http::follow(&serving.socket, &turn);
        assert!(events.contains(&format!("You said: number {n}")), "{events}");
    }
    let prompts =
        ["!hang", "!words 100000 1", "!tool Wait 60000", "!ask", "said\n!hang", "!words 1000000"];
    let sessions = start_busy_sessions(&machine, &serving, "default", &prompts);
    for session in &sessions {
        http::submit(&serving.socket, session, "waiting in the queue");
    }
    serving.kill();
    machine.angelia(&["run", "hello"]).assert_code(0);
    assert_no_process_left(&machine);
    assert_eq!(assert_every_turn_ended_once(&machine), 200 + 16 + 16 + 1);
    let failed: Vec<_> =
        machine.list("turns").into_iter().filter(|turn| turn["status"] == "failed").collect();
    assert_eq!(failed.len(), 32);
    for turn in failed {
        let why = &turn["failure"];
        assert!(why["message"].as_str().unwrap().contains("killed"), "{why}");
        assert!(why["hint"].is_string(), "{why}");
    }
    // The sessions continue.
    machine.angelia(&["run", "-s", &sessions[0], "!who"]).assert_code(0);
    machine.angelia(&["run", "-s", &session, "!who"]).assert_code(0);
}

/// Every command that starts an engine cleans up.
#[test]
fn every_command_is_a_next_start() {
    for command in [&["run", "hello"][..], &["sessions", "delete", ABSENT]] {
        let machine = Machine::new();
        let serving = machine.serve();
        let session = http::session(&machine, &serving.socket, "default");
        let turn = http::submit(&serving.socket, &session, SAYS_AND_HANGS);
        until("the agent runs", || !agent_pids(&machine).is_empty());
        serving.kill();
        machine.angelia(command);
        assert_no_process_left(&machine);
        let shown = machine.angelia(&["turns", "show", &turn]);
        shown.assert_code(0).assert_stdout("failed");
        assert_eq!(assert_every_turn_ended_once(&machine), if command[0] == "run" { 2 } else { 1 });
    }
}

/// A command that only reads opens the store: it ends no process and closes no turn.
#[test]
fn whoever_only_reads_cleans_nothing_up() {
    let machine = Machine::new();
    let serving = machine.serve();
    let session = http::session(&machine, &serving.socket, "default");
    let turn = http::submit(&serving.socket, &session, SAYS_AND_HANGS);
    until("the agent hangs in its tool", || {
        let turns = machine.export(&session);
        turns.iter().any(|turn| !turn.of_type("tool.started").is_empty())
    });
    serving.kill();
    assert_no_process_left(&machine);
    let commands: [&[&str]; 7] = [
        &["sessions", "list"],
        &["sessions", "show", &session],
        &["sessions", "export", &session],
        &["turns", "list"],
        &["turns", "show", &turn],
        &["approvals", "list", "--all"],
        &["sessions", "list", "--json"],
    ];
    for command in commands {
        machine.angelia(command).assert_code(0);
        let turn = &machine.list("turns")[0];
        // It is known to be lost, and its end is not recorded.
        assert_eq!((&turn["status"], &turn["finished_at"]), (&json!("failed"), &json!(null)));
        assert_eq!(machine.list("sessions")[0]["status"], "failed", "after {command:?}");
    }
    machine.angelia(&["run", "hello"]).assert_code(0);
    assert_no_process_left(&machine);
    assert_eq!(assert_every_turn_ended_once(&machine), 2);
}

#[test]
fn a_killed_run_is_cleaned_up_by_the_next_one() {
    let machine = Machine::new();
    let running = machine.start(&["run", "--json", SAYS_AND_HANGS]);
    // An event that was shown may not be recorded yet.
    until("what was said is recorded", || {
        let sessions = machine.list("sessions");
        let session = sessions.first().and_then(|session| session["id"].as_str());
        session.is_some_and(|id| {
            let turns = machine.export(id);
            turns.iter().any(|turn| !turn.of_type("tool.started").is_empty())
        })
    });
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    let serving = machine.serve();
    assert_no_process_left(&machine);
    assert_eq!(assert_every_turn_ended_once(&machine), 1);
    let turn = &machine.list("turns")[0];
    assert_eq!(turn["status"], "failed");
    assert!(turn["text"].as_str().unwrap().contains("said before"), "{turn}");
    serving.stop().assert_code(0);
}

/// Several simultaneous starts clean up together, and no living agent of another process is
/// touched.
#[test]
fn the_living_are_left_alone() {
    let machine = Machine::new();
    let living = machine.start(&["run", "--json", "alive\n!hang"]);
    living.wait_for_stdout("alive");
    let serving = machine.serve();
    start_busy_sessions(&machine, &serving, "default", &["!hang"]);
    serving.kill();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                machine.angelia(&["run", "hello"]).assert_code(0).assert_stdout("You said");
            });
        }
    });
    let left = within(MAX_ORPHAN_TIME, || agent_pids(&machine).len() == 1);
    assert!(left, "{:?}", agent_pids(&machine));
    living.signal(rustix::process::Signal::INT);
    living.wait().assert_code(130);
    assert_eq!(assert_every_turn_ended_once(&machine), 16 + 4 + 1);
    assert!(agent_pids(&machine).is_empty());
}

/// With the real program: a tool's grandchild in its own session, which only its mark connects to
/// us.
#[test]
fn real_a_tools_grandchild_does_not_survive_it() {
    for claude in RealClaude::for_product_tests().unwrap() {
        let machine = Machine::with_shell();
        let server = ModelServer::start().unwrap();
        machine.configure(&format!(
            "profiles:\n  default:{}\n    permissions: unattended\n  demo: {{executor: parrot}}\n",
            profile(&machine, &claude, &server)
        ));
        let serving = machine.serve();
        let pids = machine.place.root().join("pids");
        let command = format!(
            "for n in 1 2; do setsid sh -c 'echo $$ >> {}; exec sleep 300' >/dev/null 2>&1 & done; sleep 300",
            pids.display()
        );
        let call = json!({"name": "Bash", "input": {"command": command, "description": "x"}});
        let prompt = format!("TOOL:{call}:END");
        for prompt in [prompt.as_str(), "WORDS:100000:5", "HANG_HEADERS"] {
            let session = http::session(&machine, &serving.socket, "default");
            http::submit(&serving.socket, &session, prompt);
        }
        let session = http::session(&machine, &serving.socket, "demo");
        http::submit(&serving.socket, &session, "!hang");
        until("the grandchildren live", || {
            std::fs::read_to_string(&pids).is_ok_and(|pids| pids.lines().count() == 2)
        });
        until("the others have begun", || server.model_requests().len() >= 3);
        serving.kill();
        machine.angelia(&["run", "-p", "demo", "hello"]).assert_code(0);
        assert_no_process_left(&machine);
        for pid in std::fs::read_to_string(&pids).unwrap().lines() {
            let line = crate::agent_processes::command_line(pid.parse().unwrap());
            assert!(!line.contains("sleep 300"), "{pid}: {line}");
        }
        assert_eq!(assert_every_turn_ended_once(&machine), 5);
    }
}

/// The agents of a process that was killed end with it: nobody has to start another one.
#[test]
fn agents_end_soon_after_their_owner_was_killed() {
    for through_daemon in [false, true] {
        let machine = Machine::new();
        let serving = through_daemon.then(|| machine.serve());
        let running = machine.start(&["run", SAYS_AND_HANGS]);
        running.wait_for_stdout("said before");
        assert!(!agent_pids(&machine).is_empty());
        match serving {
            Some(serving) => serving.kill(),
            None => running.signal(rustix::process::Signal::KILL),
        }
        assert_no_process_left(&machine);
        drop(running);
    }
}

/// Also the tools of an agent, and what they have started in sessions of their own.
#[test]
fn real_the_tools_of_an_agent_end_with_its_owner() {
    for claude in RealClaude::for_product_tests().unwrap() {
        let (machine, server) = (Machine::with_shell(), ModelServer::start().unwrap());
        let lines = profile(&machine, &claude, &server);
        machine.configure(&format!("profiles:\n  default:{lines}\n    permissions: unattended\n"));
        let pids = machine.place.root().join("pids");
        let command = format!(
            "setsid sh -c 'echo $$ >> {}; exec sleep 300' >/dev/null 2>&1 & sleep 300",
            pids.display()
        );
        let call = json!({"name": "Bash", "input": {"command": command, "description": "x"}});
        let running = machine.start(&["run", "--json", &format!("TOOL:{call}:END")]);
        until("the grandchild lives", || {
            std::fs::read_to_string(&pids).is_ok_and(|it| !it.is_empty())
        });
        running.signal(rustix::process::Signal::KILL);
        assert_no_process_left(&machine);
        let pid = std::fs::read_to_string(&pids).unwrap();
        let grandchild = crate::agent_processes::command_line(pid.trim().parse().unwrap());
        assert_eq!(grandchild, "", "{grandchild}");
    }
}
