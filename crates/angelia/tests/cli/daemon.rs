//! `angelia serve`: its interfaces, the commands that use it, and its end.

use std::{fs, net::SocketAddr};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::{
    agent_processes::agent_pids,
    http,
    machine::{DEMO_NOTE, Machine, SAYS_AND_HANGS, SERVE, mode, until},
    transcript::Transcript,
};

#[test]
fn it_says_where_it_is_and_leaves_nothing_behind() {
    let machine = Machine::new();
    let serving = machine.serve();
    let run = machine.home().join("run");
    let address = fs::read_to_string(run.join("http.addr")).unwrap();
    let address: SocketAddr = address.trim().parse().unwrap();
    assert!(address.ip().is_loopback() && address.port() != 0);
    assert_eq!(mode(&machine.home().join("token")), 0o600);
    assert_eq!(mode(&run.join("angelia.sock")), 0o600);
    assert_eq!(mode(&machine.home()), 0o700);
    let stopped = serving.stop();
    stopped.assert_code(0).assert_stderr(&format!("http://{address}"));
    assert!(!run.join("angelia.sock").exists() && !run.join("http.addr").exists());
    assert!(machine.home().join("token").exists());
}

#[test]
fn the_token_is_the_owners_and_stays_the_same() {
    let machine = Machine::new();
    let serving = machine.serve();
    let token = fs::read_to_string(machine.home().join("token")).unwrap();
    let bearer = format!("authorization: Bearer {}\r\n", token.trim());
    assert_eq!(http::get_over_tcp(&machine, "/healthz", "").status, 200);
    assert_eq!(http::get_over_tcp(&machine, "/api/sessions", "").status, 401);
    assert_eq!(http::get_over_tcp(&machine, "/api/sessions", &bearer).status, 200);
    let printed = serving.stop();
    assert!(!printed.stderr.contains(token.trim()), "it is never printed");
    let _serving = machine.serve();
    assert_eq!(fs::read_to_string(machine.home().join("token")).unwrap(), token);
}

#[test]
fn a_lack_of_file_descriptors_does_not_fill_the_log() {
    let machine = Machine::new();
    let serving = machine.serve();
    // Its start needs file descriptors too.
    until("it has started", || serving.running.stderr().contains("listening on the bus as"));
    let pid = serving.running.pid();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    let limit = Rlimit { current: Some(open + 4), maximum: Some(open + 4) };
    let raw = Pid::from_raw(i32::try_from(pid).unwrap());
    prlimit(raw, Resource::Nofile, limit).unwrap();
    let address = fs::read_to_string(machine.home().join("run/http.addr")).unwrap();
    let clients: Vec<_> =
        (0..24).map(|_| std::net::TcpStream::connect(address.trim()).unwrap()).collect();
    until("it has noticed", || serving.running.stderr().contains("cannot accept a connection"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    let warnings = serving.running.stderr().matches("cannot accept a connection").count();
    assert_eq!(warnings, 1, "{}", serving.running.stderr());
    drop(clients);
    until("it serves again", || http::get_over_tcp(&machine, "/healthz", "").status == 200);
    serving.stop().assert_code(0);
}

#[test]
fn there_is_one_per_home() {
    let machine = Machine::new();
    let serving = machine.serve();
    let pid = serving.running.pid().to_string();
    let second = machine.angelia(SERVE);
    second.assert_code(75).assert_stderr(&pid).assert_stderr("ANGELIA_HOME");
    machine.angelia(&["run", "hello"]).assert_code(0);
    serving.stop().assert_code(0);
    machine.serve().stop().assert_code(0);
}

#[test]
fn an_address_that_is_taken_or_not_ours_is_refused() {
    let machine = Machine::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    machine.angelia(&["serve", "--listen", &address]).assert_code(69).assert_stderr("--listen");
    machine
        .angelia(&["serve", "--listen", "0.0.0.0:0"])
        .assert_code(78)
        .assert_stderr("angelia keys add");
    machine.angelia(&["serve", "--listen", "nonsense"]).assert_code(78).assert_stderr("--listen");
    assert!(!machine.home().join("run/angelia.sock").exists());
    machine.serve().stop().assert_code(0);
}

#[test]
fn commands_use_it_and_the_process_stays_hot() {
    let machine = Machine::new();
    let serving = machine.serve();
    let turn = |number: &str| {
        let turn = machine.turn(&["-s", "work", "!who"]);
        assert!(turn.text().contains(number), "{turn:#?}");
        turn.text().to_owned()
    };
    let (first, second) = (turn("turn 1 of"), turn("turn 2 of"));
    assert_eq!(first.replace("turn 1 of", "turn 2 of"), second, "the same process");
    machine.angelia(&["doctor"]).assert_stdout("running, used by every command");
    assert!(!agent_pids(&machine).is_empty());
    serving.stop().assert_code(0);
    assert!(agent_pids(&machine).is_empty(), "its agents have gone with it");
}

#[test]
fn going_ends_every_turn_and_those_who_watch_see_it() {
    let machine = Machine::new();
    let serving = machine.serve();
    let running = machine.start(&["run", "--json", SAYS_AND_HANGS]);
    running.wait_for_stdout("said before");
    let session = http::session(&machine, &serving.socket, "default");
    let queued: Vec<_> = (0..3).map(|_| http::submit(&serving.socket, &session, "!hang")).collect();
    let stopped = serving.stop();
    stopped.assert_code(0);
    let ran = running.wait();
    assert!(!ran.stderr.contains("panicked"));
    let seen = crate::transcript::Transcript::read(&ran.stdout);
    assert_ne!(seen.end()["status"], "completed");
    for turn in machine.export(&session) {
        turn.ends_once();
        assert!(queued.contains(&turn.turn().to_owned()));
    }
    assert!(agent_pids(&machine).is_empty());
}

#[test]
fn a_running_turn_may_end_before_the_daemon_does() {
    let machine = Machine::new();
    let serving = machine.serve();
    let running = machine.start(&["run", "--json", "!words 30 50"]);
    running.wait_for_stdout("word2");
    serving.running.signal(Signal::TERM);
    let ran = running.wait();
    ran.assert_code(0);
    assert!(Transcript::read(&ran.stdout).completed().text().contains("word30"));
    serving.running.wait().assert_code(0);
    // With `drain: 0` nothing is waited for.
    machine.configure("drain: 0s");
    let serving = machine.serve();
    let running = machine.start(&["run", "--json", "!words 300 50"]);
    running.wait_for_stdout("word2");
    serving.stop().assert_code(0);
    running.wait().assert_code(130);
}

#[test]
fn a_dead_daemons_socket_confuses_nobody() {
    let machine = Machine::new();
    let serving = machine.serve();
    machine.angelia(&["run", "-s", "work", "hello"]).assert_code(0);
    serving.kill();
    assert!(machine.home().join("run/angelia.sock").exists(), "that is what is tested");
    let ran = machine.angelia(&["run", "-s", "work", "hello"]);
    assert_eq!(ran.assert_code(0).stderr, DEMO_NOTE);
    machine.angelia(&["doctor"]).assert_stdout("not running");
    let serving = machine.serve();
    machine.angelia(&["run", "-s", "work", "hello"]).assert_code(0);
    serving.stop().assert_code(0);
}

/// A program that is not our daemon listens on the daemon's socket.
#[test]
fn a_stranger_at_the_socket_confuses_nobody() {
    let machine = Machine::new();
    machine.angelia(&["run", "hello"]).assert_code(0);
    let socket = machine.home().join("run/angelia.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let stranger = std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example.org ESMTP\r\n").unwrap();
    });
    machine.angelia(&["run", "hello"]).assert_code(0);
    stranger.join().unwrap();
}

#[test]
fn a_second_signal_does_not_disturb_the_first() {
    let machine = Machine::new();
    let serving = machine.serve();
    http::submit(&serving.socket, &http::session(&machine, &serving.socket, "default"), "!hang");
    until("the agent runs", || !agent_pids(&machine).is_empty());
    serving.running.signal(Signal::TERM);
    serving.running.signal(Signal::INT);
    serving.running.wait().assert_code(0);
    assert!(agent_pids(&machine).is_empty());
}

#[test]
fn a_daemon_that_dies_ends_the_same_turn_with_the_text_so_far() {
    let machine = Machine::new();
    let serving = machine.serve();
    let running = machine.start(&["run", "--json", "!words 3\n!hang"]);
    running.wait_for_stdout("word3");
    serving.kill();
    let ran = running.wait();
    ran.assert_code(69);
    // One turn: the same ids, numbers without a gap, one end.
    let turn = Transcript::read(&ran.stdout);
    turn.failed("unavailable");
    for event in &turn.events {
        assert_eq!(event["turn_id"], turn.events[0]["turn_id"], "{turn:#?}");
        assert_eq!(event["session_id"], turn.events[0]["session_id"], "{turn:#?}");
    }
    assert!(turn.text().contains("word1 word2 word3"), "{turn:#?}");
    assert_eq!(turn.end()["reason"], "the daemon was lost");
}
