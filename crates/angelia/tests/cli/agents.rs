//! Commands from an agent's own processes. Each is started by a marked shell that removes the mark
//! from the environment of what it starts.

use std::{fs, process::Stdio};

use crate::{
    agent_processes::home_id,
    machine::{ANGELIA, Machine, ProgramOutput, RunningCommand},
};

const PROFILES: &str = "\
profiles:
  default: {executor: parrot, delegate_to: [helper]}
  helper: {executor: parrot}
  wide: {executor: parrot, permissions: unattended}
";

/// Runs a command as a child of a shell with this mark.
pub(crate) fn run_as_agent(machine: &Machine, mark: &str, arguments: &[&str]) -> ProgramOutput {
    let mut command = machine.program("/bin/sh");
    command
        .env("ANGELIA_AGENT", mark)
        .args(["-c", "env -u ANGELIA_AGENT \"$0\" \"$@\"; exit $?", ANGELIA])
        .args(arguments);
    RunningCommand::spawn(command, Stdio::null()).wait()
}

/// Makes a mark of this home that belongs to a session.
pub(crate) fn bind(machine: &Machine, session: &str) -> String {
    let folder = machine.home().join("run/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("owner:agent"), session).unwrap();
    format!("{}:owner:agent", home_id(machine))
}

#[test]
fn what_is_the_owners_is_refused() {
    let machine = Machine::with_shell();
    machine.configure(PROFILES);
    machine.angelia(&["run", "hello"]).assert_code(0);
    let session = machine.list("sessions")[0]["id"].as_str().unwrap().to_owned();
    let own = bind(&machine, &session);
    let refused: [&[&str]; 23] = [
        &["keys", "add", "mine"],
        &["keys", "list"],
        &["keys", "revoke", "mine"],
        &["config", "show"],
        &["config", "init", "--force"],
        &["config", "reload"],
        &["bus", "stop"],
        &["bus", "restart"],
        &["bus", "dead", "list"],
        &["codex", "enable"],
        &["codex", "disable"],
        &["sessions", "export", &session],
        &["acp"],
        // Without a daemon nobody decides what the session reaches.
        &["run", "hello"],
        &["run", "-p", "helper", "hello"],
        &["bridge"],
        &["sessions", "list"],
        &["sessions", "delete", &session],
        &["turns", "list"],
        &["approvals", "list"],
        // A daemon is started with the home's own configuration and no flags.
        &["serve", "--listen", "127.0.0.1:0"],
        &["serve", "--config", "other.yaml"],
        &["bus", "start", "--config", "other.yaml"],
    ];
    for mark in [own.as_str(), "another:owner:agent", "nonsense"] {
        for arguments in refused {
            let ran = run_as_agent(&machine, mark, arguments);
            assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {}", ran.stderr);
            ran.assert_stderr("an agent's process cannot");
        }
    }
    let text = fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    assert_eq!(text, PROFILES);
    assert_eq!(machine.list("sessions").len(), 1);
    run_as_agent(&machine, &own, &["doctor"]);
    run_as_agent(&machine, &own, &["completions", "bash"]).assert_code(0);
}

#[test]
fn the_daemon_decides_what_an_agents_commands_reach() {
    let machine = Machine::with_shell();
    machine.configure(PROFILES);
    let _serving = machine.serve();
    machine.angelia(&["run", "own"]).assert_code(0);
    machine.angelia(&["run", "other"]).assert_code(0);
    let sessions = machine.list("sessions");
    let id = |index: usize| sessions[index]["id"].as_str().unwrap();
    let (other, own) = (id(0), id(1));
    let mark = bind(&machine, own);
    let run = |arguments: &[&str]| run_as_agent(&machine, &mark, arguments);
    run(&["sessions", "show", own]).assert_code(0);
    for arguments in [
        &["sessions", "show", other][..],
        &["sessions", "delete", other],
        &["sessions", "delete", own],
        &["sessions", "fork", other],
        &["sessions", "resume", own, "more"],
        &["sessions", "list"],
        &["run", "-p", "wide", "hello"],
        &["run", "hello"],
        &["run", "-s", other, "hello"],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {} {}", ran.stdout, ran.stderr);
    }
    assert_eq!(machine.list("sessions").len(), 2);
    // Work is handed on where the session's profile may.
    run(&["run", "-p", "helper", "hello"]).assert_code(0);
    assert_eq!(machine.list("sessions").len(), 3);
}
