//! The fake agent does what its verbs say; the supervision tests rely on each verb.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the fake is started directly")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use angelia_testkit::programs;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn start(verbs: &[&str]) -> Child {
    Command::new(programs::fake_agent().unwrap())
        .args(verbs)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn output(verbs: &[&str]) -> (Option<i32>, Vec<u8>, String) {
    let output = start(verbs).wait_with_output().unwrap();
    (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().unwrap()).unwrap()
}

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn speaks_and_exits_as_told() {
    let (code, stdout, stderr) =
        output(&["say", "a b", "stderr", "oops", "half-line", "c", "exit", "7"]);
    assert_eq!((code, &*stdout, &*stderr), (Some(7), &b"a b\nc"[..], "oops\n"));
    let (code, _, stderr) = output(&["dance", "now"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("no such verb"), "{stderr}");
}

#[test]
fn floods_and_writes_lines_of_any_length() {
    assert_eq!(output(&["flood", "1000000"]).1.len(), 1_000_000);
    let line = output(&["long-line", "200000"]).1;
    assert_eq!((line.len(), line.iter().position(|byte| *byte == b'\n')), (200_001, Some(200_000)));
    assert_eq!(output(&["flood-stderr", "5000"]).2.len(), 5000);
}

#[test]
fn copies_its_input_and_waits_for_its_end() {
    let mut child = start(&["echo", "say", "end"]);
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"hello\nend\n");
}

#[test]
fn shows_exactly_its_environment() {
    let output = Command::new(programs::fake_agent().unwrap())
        .arg("env")
        .env_clear()
        .env("ONLY", "this")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"ONLY=this\n");
}

#[test]
fn ignores_or_obeys_a_termination() {
    let mut deaf = start(&["ignore-term", "say", "ready", "await-eof"]);
    let mut lines = BufReader::new(deaf.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill_process(pid(&deaf), Signal::TERM).unwrap();
    drop(deaf.stdin.take());
    assert_eq!(deaf.wait().unwrap().code(), Some(0));

    let mut polite = start(&["exit-on-term", "9", "say", "ready", "hang"]);
    let mut lines = BufReader::new(polite.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill_process(pid(&polite), Signal::TERM).unwrap();
    assert_eq!(polite.wait().unwrap().code(), Some(9));
}

#[test]
fn a_grandchild_in_its_own_session_holds_the_pipe() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("pid");
    let verbs = format!("setsid pid-file {} hang", path.display());
    let mut child = start(&["fork", &verbs, "exit", "0"]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let grandchild = wait_for(|| std::fs::read_to_string(&path).ok());
    let grandchild = Pid::from_raw(grandchild.parse().unwrap()).unwrap();
    assert_eq!(rustix::process::getsid(Some(grandchild)).unwrap(), grandchild);
    test_kill_process(grandchild).unwrap();
    kill_process(grandchild, Signal::KILL).unwrap();
    // The pipe ends only now.
    let mut rest = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn closes_its_output_and_lives_on() {
    let mut child = start(&["say", "last", "close-stdout", "await-eof"]);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "last\n");
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn dies_by_signals() {
    assert_eq!(start(&["kill"]).wait().unwrap().signal(), Some(9));
    assert_eq!(start(&["half-line", "x", "abort"]).wait().unwrap().signal(), Some(6));
}
