//! Ctrl-C once and twice, and a reader that closes the pipe.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    agent_processes::agent_pids,
    machine::{Machine, RunningCommand, SAYS_AND_HANGS, until},
    transcript::Transcript,
};

#[test]
fn the_first_ctrl_c_interrupts_and_keeps_what_was_said() {
    let machine = Machine::new();
    let running = machine.start(&["run", "--json", "!words 2\n!tool Wait\n!words 3 20\n!hang"]);
    running.wait_for_stdout("word3");
    running.signal(Signal::INT);
    let ran = running.wait();
    ran.assert_code(130);
    let turn = Transcript::read(&ran.stdout);
    assert_eq!(turn.end()["status"], "interrupted");
    assert!(turn.text().contains("word1 word2"), "{turn:#?}");
    assert_eq!(machine.export(turn.session())[0].end(), turn.end(), "it is recorded so");
    assert!(agent_pids(&machine).is_empty(), "its process has gone");
}

#[test]
fn a_person_sees_what_was_said_before_the_interruption() {
    let machine = Machine::new();
    let running = machine.start(&["run", SAYS_AND_HANGS]);
    running.wait_for_stdout("said before");
    running.signal(Signal::INT);
    running.wait().assert_code(130).assert_stderr("interrupting").assert_stderr("interrupted");
}

/// An agent that does not react any more: its process is under SIGSTOP.
#[test]
fn the_second_ctrl_c_kills() {
    let machine = Machine::new();
    let running = machine.start(&["run", SAYS_AND_HANGS]);
    running.wait_for_stdout("said before");
    let agents = agent_pids(&machine);
    assert_eq!(agents.len(), 1);
    signal(agents[0], Signal::STOP);
    running.signal(Signal::INT);
    until("the first one is answered", || running.stderr().contains("Ctrl-C again to kill"));
    let asked = Instant::now();
    running.signal(Signal::INT);
    running.wait().assert_code(130).assert_stderr("killing");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert!(agent_pids(&machine).is_empty());
}

fn signal(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn being_told_to_go_is_an_interruption_too() {
    for told in [Signal::TERM, Signal::HUP] {
        let machine = Machine::new();
        let running = machine.start(&["run", SAYS_AND_HANGS]);
        running.wait_for_stdout("said before");
        running.signal(told);
        running.wait().assert_code(130);
        assert_eq!(machine.list("turns")[0]["status"], "interrupted");
        assert!(agent_pids(&machine).is_empty());
    }
}

#[test]
fn ctrl_c_reaches_a_turn_in_the_daemon() {
    let machine = Machine::new();
    let serving = machine.serve();
    let running = machine.start(&["run", "--json", SAYS_AND_HANGS]);
    running.wait_for_stdout("said before");
    running.signal(Signal::INT);
    let ran = running.wait();
    ran.assert_code(130);
    assert_eq!(Transcript::read(&ran.stdout).end()["status"], "interrupted");
    serving.stop().assert_code(0);
}

#[test]
fn a_reader_who_leaves_ends_the_turn_without_noise() {
    let machine = Machine::with_shell();
    for json in ["--json", ""] {
        // Output to a pipe is written in blocks; each write can notice the closed pipe.
        let prompt = "one line\n!tool A 300\ntwo\n!tool B 300\nthree\n!tool C\n!words 100000 5";
        let script = format!("\"$ANGELIA\" run {json} '{prompt}' | head -n 1");
        let began = Instant::now();
        let ran = machine.shell(&script);
        ran.assert_code(0);
        assert!(!ran.stderr.to_lowercase().contains("pipe"), "{ran:#?}");
        assert!(began.elapsed() < Duration::from_secs(30), "it went on");
    }
    for turn in machine.list("turns") {
        assert_eq!(turn["status"], "interrupted");
    }
    assert!(agent_pids(&machine).is_empty());
}

#[test]
fn closed_streams_are_no_reason_to_panic() {
    let machine = Machine::with_shell();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        for command in ["run hello", "run --json hello", "sessions list", "doctor", "--help"] {
            let ran = machine.shell(&format!("\"$ANGELIA\" {command} {closed}; echo code $?"));
            assert!(!ran.stderr.contains("panicked"), "{command} {closed}: {ran:#?}");
            let code: u8 = ran.stdout.rsplit("code ").next().unwrap().trim().parse().unwrap();
            assert!(code < 3, "{command} {closed}: {ran:#?}");
        }
    }
    let full = machine.shell("\"$ANGELIA\" sessions list >/dev/full");
    full.assert_code(74).assert_stderr("cannot write the output");
}

/// A terminal sends Ctrl-C to the whole process group; the agent must not get it directly.
#[test]
fn the_agent_is_out_of_reach_of_the_terminals_ctrl_c() {
    use std::os::unix::process::CommandExt as _;
    let machine = Machine::new();
    let mut command: Command = machine.command(&["run", "--json", SAYS_AND_HANGS]);
    command.process_group(0);
    let running = RunningCommand::spawn(command, Stdio::null());
    running.wait_for_stdout("said before");
    let group = rustix::process::Pid::from_raw(running.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process_group(group, Signal::INT).unwrap();
    let ran = running.wait();
    ran.assert_code(130);
    assert_eq!(Transcript::read(&ran.stdout).end()["status"], "interrupted");
}
