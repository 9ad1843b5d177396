//! The exit codes scripts rely on, each with an error that says what failed and what to do.

use std::process::Stdio;

use crate::machine::{ANGELIA, Machine, RunningCommand};

const PROFILES: &str = "\
profiles:
  missing: {executor: claude, binary: /nonexistent/claude}
  meant: {binary: /nonexistent/agent}
";

/// The prompt, its exit code, and a word of the error.
const TABLE: &[(&[&str], i32, &str)] = &[
    (&["run", "!words 2"], 0, ""),
    (&["run", "!fail invalid"], 1, "not valid"),
    (&["run", "!fail refused"], 1, "refuse"),
    (&["run", "!fail unknown"], 69, "something failed"),
    (&["run", "!fail model"], 1, "no such model"),
    (&["run", "!die"], 1, "ended"),
    (&["run", "-p", "nobody", "hi"], 2, "known: default, meant, missing"),
    (&["run", "--cwd", "/nowhere", "hi"], 2, "/nowhere"),
    (&["run", "--nonsense"], 2, "--nonsense"),
    (&["nonsense"], 2, "nonsense"),
    (&["run", " "], 2, "empty"),
    (&["sessions", "show", "nonsense"], 2, "sessions list"),
    (&["turns", "watch", "nonsense"], 2, "turns list"),
    (&["sessions", "show", "01a1e0f8-d08f-76c6-8281-62076d1080ea"], 1, "no such session"),
    (&["run", "-s", "01a1e0f8-d08f-76c6-8281-62076d1080ea", "hi"], 1, "no such session"),
    (&["turns", "show", "01a1e0f8-d08f-76c6-8281-62076d1080ea"], 1, "no such turn"),
    (&["run", "-p", "missing", "hi"], 69, "does not exist"),
    // The demo does not stand in for a program that the profile names.
    (&["run", "-p", "meant", "hi"], 69, "/nonexistent/agent"),
    (&["run", "!fail server"], 69, "overloaded"),
    (&["run", "!fail auth"], 77, "not logged in"),
    // Last, because the profile counts as out of quota from then on.
    (&["run", "!fail rate"], 75, "parked until"),
    (&["--config", "nowhere.yaml", "run", "hi"], 78, "nowhere.yaml"),
];

#[test]
fn every_way_to_fail_has_its_code_and_its_word() {
    let machine = Machine::new();
    machine.configure(PROFILES);
    for (arguments, code, word) in TABLE {
        let ran = machine.angelia(arguments);
        ran.assert_code(*code).assert_stderr(word);
        // Only the agent's text is on stdout, including the text of an agent that died.
        if *code != 0 && !arguments.contains(&"!die") {
            assert_eq!(ran.stdout.lines().count(), 0, "errors go to stderr: {ran:#?}");
        }
    }
}

#[test]
fn the_daemon_gives_the_same_codes() {
    let machine = Machine::new();
    machine.configure(PROFILES);
    let _serving = machine.serve();
    for (arguments, code, word) in TABLE.iter().filter(|row| row.0[0] == "run") {
        machine.angelia(arguments).assert_code(*code).assert_stderr(word);
    }
}

#[test]
fn events_tell_every_failure_once_the_configuration_is_read() {
    let machine = Machine::new();
    machine.configure("profiles: {missing: {executor: claude, binary: /nonexistent/claude}}");
    for (arguments, code, kind) in [
        (vec!["!fail auth"], 77, "auth"),
        (vec!["!fail server"], 69, "unavailable"),
        (vec!["!fail refused"], 1, "refused"),
        (vec!["!die"], 1, "agent"),
        (vec!["-p", "missing", "hi"], 69, "unavailable"),
        (vec!["-p", "nobody", "hi"], 2, "invalid"),
        (vec!["--cwd", "/nonexistent", "hi"], 2, "invalid"),
        (vec![" "], 2, "invalid"),
    ] {
        let ran = machine.angelia(&[&["run", "--json"], &arguments[..]].concat());
        ran.assert_code(code);
        let said =
            ran.stderr.lines().filter(|line| !line.contains("demo") && !line.contains("doctor"));
        assert_eq!(said.count(), 0, "nothing is said twice: {ran:#?}");
        let transcript = crate::transcript::Transcript::read(&ran.stdout);
        transcript.failed(kind);
        assert_eq!(transcript.end()["status"], "failed");
    }
    let ran = machine.angelia(&["run", "--json", "!fail rate"]);
    ran.assert_code(75);
    let parked = crate::transcript::Transcript::read(&ran.stdout);
    assert_eq!(parked.end()["status"], "parked");
    let ran = machine.angelia_with_input(&["run", "--json", "-"], b"not \xff text");
    ran.assert_code(2);
    crate::transcript::Transcript::read(&ran.stdout).failed("invalid");
}

#[test]
fn what_was_said_before_a_failure_is_kept() {
    let machine = Machine::new();
    let failed = machine.turn(&["!words 3\n!fail server"]);
    assert!(failed.text().contains("word1 word2 word3"), "{failed:#?}");
    let died = machine.turn(&["said before\n!die"]);
    died.failed("agent");
    assert!(died.text().contains("You said: said before"), "{died:#?}");
}

/// Everything that prints reports an output that cannot be written.
#[test]
fn output_that_cannot_be_written_is_reported() {
    let machine = Machine::with_shell();
    let session = machine.turn(&["hello"]).session().to_owned();
    for arguments in [
        "run hello",
        "run --json hello",
        "run '!words 3 50'",
        "run --json '!words 3 50'",
        "--help",
        "sessions list",
        "turns list",
        "config show",
        "doctor",
        "completions bash",
        &format!("sessions export {session}"),
    ] {
        let mut command = machine.program("/bin/sh");
        command.args(["-c", &format!("exec '{ANGELIA}' {arguments} > /dev/full")]);
        let ran = RunningCommand::spawn(command, Stdio::null()).wait();
        ran.assert_code(74).assert_stderr("cannot write the output: No space left");
    }
    // A host's lines.
    let mut command = machine.program("/bin/sh");
    command.args(["-c", &format!("echo '{{\"type\":\"ping\"}}' | '{ANGELIA}' bridge > /dev/full")]);
    let ran = RunningCommand::spawn(command, Stdio::null()).wait();
    ran.assert_code(74).assert_stderr("cannot write the output: No space left");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let machine = Machine::with_shell();
    machine.turn(&["hello"]);
    let mut command = machine.program("/bin/sh");
    // `true` reads nothing; the second command's exit code is written beside it.
    let line = format!("{{ sleep 0.2; '{ANGELIA}' sessions list; echo $? >&2; }} | true");
    command.args(["-c", &line]);
    let ran = RunningCommand::spawn(command, Stdio::null()).wait();
    assert_eq!(ran.stderr.trim(), "0", "{ran:#?}");
}
