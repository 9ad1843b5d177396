//! `angelia serve` takes over a bus that runs alone, and no message is lost or comes twice.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use angelia_testkit::bus_peer::{BusPeer, encode_frames};
use serde_json::{Value, json};

use crate::{
    bus_machine::{BusDaemon, BusMachine, text},
    serving::serving,
};

const DEADLINE: Duration = Duration::from_mins(1);

/// A process that listens as `r`, and how often each text has arrived there.
struct Listener {
    child: Child,
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

impl Listener {
    fn start(machine: &BusMachine) -> Self {
        let mut child = machine
            .program(env!("CARGO_BIN_EXE_angelia"))
            .args(["bus", "listen", "r", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let counts: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let seen = Arc::clone(&counts);
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap();
                let text = message["body"]["text"].as_str().unwrap().to_owned();
                *seen.lock().unwrap().entry(text).or_default() += 1;
            }
        });
        Self { child, counts }
    }

    /// Waits until every text has arrived; fails if one has arrived twice.
    fn expect_once(&self, sent: &[String]) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let counts = self.counts.lock().unwrap().clone();
            let missing: Vec<_> = sent.iter().filter(|one| !counts.contains_key(*one)).collect();
            if missing.is_empty() {
                let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
                assert!(twice.is_empty(), "more than once: {twice:?}");
                return;
            }
            assert!(Instant::now() < deadline, "lost: {missing:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Runs `send` again and again in a thread, with a new text each time, until told to stop.
fn send_until(
    stop: &Arc<AtomicBool>,
    name: &'static str,
    mut send: impl FnMut(&str) + Send + 'static,
) -> JoinHandle<Vec<String>> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut texts = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            let text = format!("{name}-{}", texts.len());
            send(&text);
            texts.push(text);
        }
        texts
    })
}

/// Sends as a client of hermes-bus does: it connects, writes and disconnects, and takes what it
/// could write as sent.
fn send_as_hermes(socket: &PathBuf, text: &str) {
    let message =
        json!({"type": "message", "to": "r", "id": text, "ts": 1, "body": {"text": text}});
    let deadline = Instant::now() + DEADLINE;
    loop {
        let sent = UnixStream::connect(socket)
            .and_then(|mut stream| stream.write_all(&encode_frames([&message])));
        match sent {
            Ok(()) => break,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
    thread::sleep(Duration::from_millis(1));
}

#[test]
fn messages_sent_before_during_and_after_a_takeover_arrive_once() {
    let machine = Arc::new(BusMachine::new());
    let _stopped = machine.stop_at_end();
    let first = machine.angelia(&["notify", "--to", "r", "first"]);
    assert_eq!(text(&first.stdout), "OK: notified r: queued: never seen\n", "{first:?}");
    let alone = machine.status()["pid"].clone();
    let listener = Listener::start(&machine);
    listener.expect_once(&["first".to_owned()]);

    let stop = Arc::new(AtomicBool::new(false));
    let notifying = send_until(&stop, "notify", {
        let machine = Arc::clone(&machine);
        move |text| {
            let sent = machine.angelia(&["notify", "--to", "r", text]);
            assert!(sent.status.success(), "{sent:?}");
        }
    });
    let sockets = [machine.socket(), machine.own_socket()];
    let mut senders = vec![notifying];
    for (name, socket) in ["hermes", "own"].into_iter().zip(sockets) {
        senders.push(send_until(&stop, name, move |text| send_as_hermes(&socket, text)));
    }
    thread::sleep(Duration::from_millis(200));
    let daemon = serving(&machine);
    let deadline = Instant::now() + DEADLINE;
    while machine.status()["pid"] != daemon.0.id() {
        assert!(Instant::now() < deadline, "{}", machine.status());
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(300));
    stop.store(true, Ordering::SeqCst);
    let mut sent = vec!["first".to_owned()];
    for sender in senders {
        let texts = sender.join().unwrap();
        assert!(!texts.is_empty());
        sent.extend(texts);
    }
    listener.expect_once(&sent);
    // A process that has ended and was not waited for has no command line.
    let command_line = std::fs::read(format!("/proc/{alone}/cmdline")).unwrap_or_default();
    assert!(command_line.is_empty(), "process {alone} still runs");
}

/// The process that holds the home has the bus: a daemon that is starting or ending is waited for.
#[test]
fn senders_that_meet_a_restarting_daemon_do_not_keep_the_bus_from_it() {
    let machine = Arc::new(BusMachine::without_hermes());
    let _stopped = machine.stop_at_end();
    let stop = Arc::new(AtomicBool::new(false));
    let sender = send_until(&stop, "notify", {
        let machine = Arc::clone(&machine);
        move |text| {
            let sent = machine.angelia(&["notify", "--to", "r", text]);
            assert!(sent.status.success(), "{sent:?}");
        }
    });
    for _ in 0..3 {
        let daemon = serving(&machine);
        let deadline = Instant::now() + DEADLINE;
        while machine.status()["pid"] != daemon.0.id() {
            assert!(Instant::now() < deadline, "{}", machine.status());
            thread::sleep(Duration::from_millis(20));
        }
        terminate(daemon);
    }
    stop.store(true, Ordering::SeqCst);
    let sent = sender.join().unwrap();
    Listener::start(&machine).expect_once(&sent);
}

fn terminate(mut daemon: BusDaemon) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(daemon.0.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(daemon.0.wait().unwrap().success());
}

#[tokio::test]
async fn what_waits_and_what_is_dead_is_taken_over() {
    let machine = BusMachine::without_hermes();
    let _stopped = machine.stop_at_end();
    assert!(machine.angelia(&["notify", "--to", "r", "waiting"]).status.success());
    let mut refusing = BusPeer::connect_with_retry(&machine.own_socket()).await;
    let register = json!({"type": "register", "endpoint": "q", "ack": true});
    assert_eq!(refusing.request(register).await["type"], "registered");
    assert!(machine.angelia(&["notify", "--to", "q", "refused"]).status.success());
    let id = refusing.expect_frame_of_type("message").await["id"].clone();
    refusing.send(&json!({"type": "refuse", "id": id})).await.unwrap();

    let daemon = serving(&machine);
    refusing.assert_closed().await;
    let status = machine.status();
    assert_eq!((&status["pid"], &status["queued"]), (&json!(daemon.0.id()), &json!(1)));
    let dead = machine.angelia(&["bus", "dead", "list", "--json"]);
    assert!(text(&dead.stdout).contains("refused"), "{dead:?}");
    Listener::start(&machine).expect_once(&["waiting".to_owned()]);
}

#[test]
fn a_bus_that_hangs_is_taken_over_by_force() {
    let machine = BusMachine::without_hermes();
    let _stopped = machine.stop_at_end();
    assert!(machine.angelia(&["notify", "--to", "r", "waiting"]).status.success());
    let pid = i32::try_from(machine.status()["pid"].as_u64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let daemon = serving(&machine);
    assert_eq!(machine.status()["pid"], daemon.0.id());
    Listener::start(&machine).expect_once(&["waiting".to_owned()]);
}
