//! `angelia bus listen` as a user runs it: every message that arrives is shown or acted on.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStderr, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use angelia_testkit::bus_peer::BusPeer;

use crate::bus_machine::{BusMachine, text};

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

struct ListenProcess {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
    notes: BufReader<ChildStderr>,
}

impl ListenProcess {
    /// Starts listening and returns when the name is registered.
    fn start(machine: &BusMachine, arguments: &[&str]) -> Self {
        let mut child = machine
            .program(env!("CARGO_BIN_EXE_angelia"))
            .args(["bus", "listen"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().map(BufReader::new);
        let notes = BufReader::new(child.stderr.take().unwrap());
        Self { child, output, notes }
    }

    fn note(&mut self) -> String {
        let mut line = String::new();
        self.notes.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let output = self.output.as_mut().unwrap();
        output.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    fn lines(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line()).collect()
    }
}

impl Drop for ListenProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn send(machine: &BusMachine, arguments: &[&str]) {
    let sent = machine.angelia(&[&["notify", "--to", "r", "--from", "me"], arguments].concat());
    assert!(sent.status.success(), "{sent:?}");
}

/// Sends frames that none of our senders would write.
async fn send_raw(machine: &BusMachine, frames: &[&str]) {
    let mut peer = BusPeer::connect_with_retry(&machine.socket()).await;
    for frame in frames {
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        peer.send_bytes(&length).await.unwrap();
        peer.send_bytes(frame.as_bytes()).await.unwrap();
    }
    // The answer to the last message shows that all were handled.
    let ping = serde_json::json!({"type": "ping"});
    assert_eq!(peer.request(ping).await["type"], "pong");
}

const RULES: &str = "\
callbacks:
- {match_type: silent, print: false}
- {match_type: run, print: false, command: 'echo \"$TYPE $FROM $TEXT\" >> RAN'}
- {match_type: ask, context: true, context_format: 'for an agent: {text}'}
- {match_type: told, print_format: '{from} says {text}'}
";

#[tokio::test(flavor = "multi_thread")]
async fn every_message_is_shown_or_acted_on() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let ran = machine.root().join("ran");
    let rules = RULES.replace("RAN", ran.to_str().unwrap());
    fs::write(machine.home().join("bus-rules.yaml"), rules).unwrap();
    // Some messages are sent before the listener starts.
    send(&machine, &["early"]);
    send(&machine, &["--type", "nobody knows it", "unmatched"]);
    let mut listening = ListenProcess::start(&machine, &["r"]);
    assert_eq!(listening.note(), "listening as r");
    send(&machine, &["--type", "told", "hello {from}"]);
    send(&machine, &["--type", "ask", "why?"]);
    send(&machine, &["--channel", "webhook:ops", "for a channel"]);
    send(&machine, &["--channel", "nonsense", "for no channel"]);
    send(&machine, &["--type", "silent", "not shown, as the rule says"]);
    send(&machine, &["--type", "run", "a command"]);
    send(&machine, &["--body", "[1, 2]"]);
    send(&machine, &["--body", r#"{"text": 7}"#]);
    send(&machine, &["a\u{1b}[31mb"]);
    let deep = format!(
        r#"{{"type":"message","to":"r","id":"deep","ts":1,"body":{}1{}}}"#,
        "[".repeat(300),
        "]".repeat(300)
    );
    let half = r#"{"type":"message","to":"r","id":"half","ts":1,"body":{"text":"\ud83d"}}"#;
    let odd = r#"{"type":"message","to":"r","id":5,"from":7,"ts":"late","body":"odd"}"#;
    let all = r#"{"type":"message","id":"all","ts":1,"body":{"text":"to everyone"}}"#;
    send_raw(&machine, &[&deep, half, odd, all]).await;

    let shown = listening.lines(13);
    let expected = [
        "early",
        "unmatched",
        "me says hello {from}",
        "for an agent: why?",
        "for a channel",
        "for no channel",
        "[1,2]",
        r#"{"text":7}"#,
        "ab",
    ];
    let (plain, rest) = shown.split_at(expected.len());
    assert_eq!(plain, expected);
    assert!(rest[0].contains("[[[1]]]"), "{}", rest[0]);
    assert!(rest[1].contains(r"\ud83d"), "{}", rest[1]);
    assert_eq!(rest[2..4], ["odd", "to everyone"]);
    wait_until("the command has run", || {
        let ran = fs::read_to_string(&ran);
        ran.is_ok_and(|ran| ran == "run me a command\n")
    });
    wait_until("all are acknowledged", || machine.status()["queued"] == 0);
}

#[test]
fn a_broken_rules_file_is_reported_at_once_and_after_each_edit() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let rules = machine.home().join("bus-rules.yaml");
    fs::write(&rules, "callbacks:\n- {match_type: run, verifed: true, command: 'true'}\n").unwrap();
    let mut listening = ListenProcess::start(&machine, &["r"]);
    let note = listening.note();
    assert!(note.contains("bus-rules.yaml: line 2") && note.contains("`verifed`"), "{note}");
    assert!(note.contains("no rule is in force") && !note.contains("earlier"), "{note}");
    assert_eq!(listening.note(), "listening as r");
    send(&machine, &["--type", "run", "shown, because no rule is in force"]);
    assert_eq!(listening.line(), "shown, because no rule is in force");
    fs::write(&rules, "callbacks:\n- {match_type: told, print_format: 'told {text}'}\n").unwrap();
    send(&machine, &["--type", "told", "one"]);
    assert_eq!(listening.line(), "told one");
    fs::write(&rules, "callbacks:\n- {match_type: told, print_format: 'told {text}'\n").unwrap();
    send(&machine, &["--type", "told", "two"]);
    assert_eq!(listening.line(), "told two");
    let note = listening.note();
    assert!(note.contains("the earlier rules stay in force"), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_json_every_message_is_one_line() {
    let machine = BusMachine::new();
    // A listener starts the bus if it does not run.
    let mut listening = ListenProcess::start(&machine, &["r", "--json"]);
    assert_eq!(listening.note(), "listening as r");
    let _stopped_at_the_end = machine.start_in_background();
    let broken =
        "{\"type\":\"message\",\n\"to\":\"r\",\r\n\"id\":\"1\",\"ts\":1,\"body\":\"a\\nb\"}";
    let half = r#"{"type":"message","to":"r","id":"2","ts":1,"body":"\ud83d"}"#;
    send_raw(&machine, &[broken, half]).await;
    let line: serde_json::Value = serde_json::from_str(&listening.line()).unwrap();
    assert_eq!((&line["body"], &line["verified"]), (&"a\nb".into(), &false.into()));
    assert!(listening.line().contains(r#""id":"2""#));
    wait_until("all are acknowledged", || machine.status()["queued"] == 0);
}

#[test]
fn it_comes_back_under_its_name_after_the_bus_was_restarted() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let mut first = ListenProcess::start(&machine, &["r"]);
    assert_eq!(first.note(), "listening as r");
    let mut second = ListenProcess::start(&machine, &["r", "--suffix"]);
    assert_eq!(second.note(), "listening as r-2");
    let restarted = machine.angelia(&["bus", "restart"]);
    assert!(restarted.status.success(), "{restarted:?}");
    for (listening, name) in [(&mut first, "r"), (&mut second, "r-2")] {
        let gone = listening.note();
        assert!(gone.contains("the bus has gone"), "{gone}");
        assert_eq!(listening.note(), format!("listening as {name}"));
        let sent = machine.angelia(&["notify", "--to", name, "for", "you"]);
        assert_eq!(sent.status.code(), Some(2), "one text, not two: {sent:?}");
        let sent = machine.angelia(&["notify", "--to", name, "after it"]);
        assert!(text(&sent.stdout).contains(name), "{sent:?}");
        assert_eq!(listening.line(), "after it");
    }
}

#[test]
fn what_nobody_reads_is_not_taken() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    for arguments in [&["r"][..], &["r", "--json"]] {
        let mut listening = ListenProcess::start(&machine, arguments);
        assert_eq!(listening.note(), "listening as r");
        send(&machine, &["first"]);
        assert!(listening.line().contains("first"));
        wait_until("the first is done", || machine.status()["queued"] == 0);
        // Close the pipe as `| head -1` does.
        drop(listening.output.take());
        // A process that is being started elsewhere may briefly hold the pipe open.
        wait_until("it has noticed", || {
            send(&machine, &["second"]);
            listening.child.try_wait().unwrap().is_some()
        });
        assert_eq!(listening.child.wait().unwrap().code(), Some(0));
        let mut rest = String::new();
        listening.notes.read_to_string(&mut rest).unwrap();
        assert_ne!(machine.status()["queued"], 0, "{rest}");
        let mut again = ListenProcess::start(&machine, arguments);
        assert!(again.line().contains("second"));
        wait_until("it is done", || machine.status()["queued"] == 0);
    }
}
