//! End to end: a sender, the daemon with its bus, a rule, an agent, and the reply at a webhook.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
    sync::mpsc,
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::notify_fixture::{DEADLINE, NotifyFixture, text, wait_for};

/// A running `angelia serve`; stopped in an orderly way when the test ends.
struct ServeProcess(Child);

impl ServeProcess {
    fn start(place: &NotifyFixture, webhook: &str) -> Self {
        let lines = fs::File::create(place.path("lines")).unwrap();
        let log = fs::File::create(place.path("log")).unwrap();
        let child = place
            .command(env!("CARGO_BIN_EXE_angelia"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("ANGELIA_WEBHOOK_URL", webhook)
            .env("ANGELIA_WEBHOOK_SECRET", "s3cret")
            .stdin(Stdio::null())
            .stdout(lines)
            .stderr(log)
            .spawn()
            .unwrap();
        let daemon = Self(child);
        wait_for("the daemon hosts its endpoint", || {
            let log = fs::read_to_string(place.path("log")).ok()?;
            let socket = place.path(".angelia/run/bus.sock");
            (log.contains("listening on the bus as") && socket.exists()).then_some(())
        });
        daemon
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        let _gone = kill_process(pid, Signal::TERM);
        let _ended = self.0.wait();
    }
}

/// A webhook server that collects the texts it receives.
fn webhook() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, texts) = mpsc::sync_channel(16);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let body = answer(&mut stream.unwrap());
            if sender.send(body).is_err() {
                return;
            }
        }
    });
    (url, texts)
}

fn answer(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "the request is whole");
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        if let Ok(body) = serde_json::from_slice(&bytes[end + 4..]) {
            let reply = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            stream.write_all(reply).unwrap();
            return body;
        }
    }
}

fn notify(place: &NotifyFixture, args: &[&str]) {
    let output = place.run("notify-hermes", args);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).starts_with("OK: notified angelia: "), "{output:?}");
}

#[test]
fn a_message_becomes_a_turn_and_its_reply_reaches_the_webhook() {
    let place = NotifyFixture::new();
    place.write("work/readme", "");
    let work = place.path("work");
    let config =
        format!("profiles:\n  default:\n    executor: parrot\n    cwd: {}\n", work.display());
    place.write(".angelia/config.yaml", &config);
    let rules = "callbacks:\n\
                 - {match_type: ask, context: true}\n\
                 - {match_type: note, print_format: 'from {from}: {text}'}\n\
                 - {match_type: sent, print_format: '{bold}{text}'}\n";
    place.write(".angelia/bus-rules.yaml", rules);
    let (url, texts) = webhook();
    let _daemon = ServeProcess::start(&place, &url);

    let to = ["--to", "angelia", "--from", "tester"];
    let send = |more: &[&str]| notify(&place, &[&to, more].concat());
    send(&["--type", "ask", "--channel", "webhook:ops", "what about /help?"]);
    let reply = texts.recv_timeout(DEADLINE).unwrap();
    assert_eq!(reply["channel"], "webhook:ops");
    let said = reply["text"].as_str().unwrap();
    assert!(said.contains("**Source:** bus (endpoint: angelia)"), "{said}");
    assert!(said.contains("[unverified sender: tester] what about /help?"), "{said}");

    send(&["--type", "sent", "--channel", "webhook:dev", "for the channel"]);
    let line = texts.recv_timeout(DEADLINE).unwrap();
    assert_eq!((&line["chat"], &line["text"]), (&"dev".into(), &"for the channel".into()));

    send(&["--type", "note", "hello"]);
    send(&["--type", "nobody knows", "shown anyway"]);
    // An edited rules file applies at once; a broken one is ignored.
    place.write(".angelia/bus-rules.yaml", &rules.replace("from {from}", "edited {from}"));
    send(&["--type", "note", "again"]);
    place.write(".angelia/bus-rules.yaml", "callbacks:\n- {match_type: [}\n");
    send(&["--type", "note", "still"]);
    let expected = "from tester: hello\nshown anyway\nedited tester: again\nedited tester: still\n";
    wait_for("the lines are shown", || {
        let lines = fs::read_to_string(place.path("lines")).unwrap();
        (lines == expected).then_some(())
    });
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("bus-rules.yaml: line 2"), "{log}");
}

#[test]
fn a_sender_starts_the_bus() {
    let place = NotifyFixture::new();
    let output = place.run("notify-hermes", &["--to", "nobody-yet", "hello"]);
    assert_eq!(text(&output.stdout), "OK: notified nobody-yet: queued: never seen\n", "{output:?}");
    let output = place.run("notify-hermes", &["--to", "nobody-yet", "again"]);
    assert!(output.status.success(), "{output:?}");
    let stop = place.command(env!("CARGO_BIN_EXE_angelia")).args(["bus", "stop"]).output();
    let stop = stop.unwrap();
    assert!(stop.status.success(), "{stop:?}");
    assert!(!place.path(".hermes/hermes-bus.sock").exists());
}
