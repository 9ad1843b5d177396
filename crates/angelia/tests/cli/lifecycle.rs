//! The daemon in the background: `start`, `stop`, `logs`, and what `serve` says.

use std::{fs, net::TcpListener, path::PathBuf};

use rustix::process::{Pid, Signal, getsid};

use crate::{
    agent_processes::agent_pids,
    machine::{Machine, ProgramOutput, mode, until},
};

/// A machine whose daemon runs in the background; stopped on drop.
pub(crate) struct BackgroundMachine(pub(crate) Machine);

impl BackgroundMachine {
    pub(crate) fn new(config: &str) -> Self {
        let machine = Machine::with_shell();
        machine.configure(&format!("listen: 127.0.0.1:0\n{config}"));
        Self(machine)
    }

    pub(crate) fn started(config: &str) -> Self {
        let this = Self::new(config);
        this.0.angelia(&["start"]).assert_code(0).assert_stdout("angelia is running at http://");
        this
    }

    pub(crate) fn pid(&self) -> u32 {
        let pid = fs::read_to_string(self.0.home().join("run/angelia.pid")).unwrap();
        pid.trim().parse().unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.home().join("run/angelia.sock")
    }

    fn log(&self) -> PathBuf {
        self.0.home().join("logs/angelia.log")
    }
}

impl Drop for BackgroundMachine {
    fn drop(&mut self) {
        let stopped = self.0.angelia(&["stop", "--now"]);
        if !std::thread::panicking() {
            stopped.assert_code(0);
        }
    }
}

fn raw(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn it_starts_once_and_stops() {
    let background = BackgroundMachine::started("");
    let machine = &background.0;
    let pid = background.pid();
    assert_eq!(getsid(Some(raw(pid))).unwrap(), raw(pid), "it has a session of its own");
    let again = machine.angelia(&["start"]);
    again.assert_code(0).assert_stdout("already running").assert_stdout(&pid.to_string());
    assert_eq!(background.pid(), pid);
    let ran = machine.angelia(&["run", "hello"]);
    assert_eq!(ran.assert_code(0).stderr.lines().filter(|line| line.contains("daemon")).count(), 0);
    assert_eq!(mode(&background.log()), 0o600);
    machine.angelia(&["logs"]).assert_code(0).assert_stdout("listens on http://127.0.0.1:");

    machine.angelia(&["stop"]).assert_code(0).assert_stdout(&format!("stopped (process {pid})"));
    assert!(!is_alive(pid) && agent_pids(machine).is_empty());
    machine.angelia(&["stop"]).assert_code(0).assert_stdout("not running");
    machine.angelia(&["start"]).assert_code(0);
    machine.angelia(&["logs", "-n", "1000"]).assert_stdout("shutting down");
}

#[test]
fn of_many_that_start_at_once_one_runs() {
    let background = BackgroundMachine::new("");
    let machine = &background.0;
    let starting: Vec<_> = (0..4).map(|_| machine.start(&["start"])).collect();
    let said: Vec<ProgramOutput> = starting.into_iter().map(|one| one.wait()).collect();
    let pid = format!("(process {})", background.pid());
    let new = said.iter().filter(|one| one.stdout.contains("is running at")).count();
    for one in &said {
        one.assert_code(0).assert_stdout(&pid);
    }
    assert_eq!(new, 1, "{said:#?}");
}

#[test]
fn a_daemon_that_does_not_start_says_why() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let machine = Machine::new();
    machine.configure(&format!("listen: {}\n", taken.local_addr().unwrap()));
    let failed = machine.angelia(&["start"]);
    failed.assert_code(69).assert_stderr("cannot listen on").assert_stderr("--listen");
    machine.configure("listn: 1\n");
    machine.angelia(&["start"]).assert_code(78).assert_stderr("listen");
    machine.angelia(&["logs", "-n", "5"]).assert_code(0);
}

#[test]
fn a_broken_configuration_does_not_keep_it_running() {
    let background = BackgroundMachine::started("");
    background.0.configure("listn: 1\n");
    background.0.angelia(&["restart"]).assert_code(78);
    assert!(is_alive(background.pid()), "what cannot start again is not stopped");
    background.0.angelia(&["logs"]).assert_code(0);
    background.0.angelia(&["stop"]).assert_code(0).assert_stdout("has stopped");
}

/// The number in the pid file is for people; the signal goes to the process that has locked it.
#[test]
fn a_forged_pid_gets_no_signal() {
    let background = BackgroundMachine::started("");
    let machine = &background.0;
    let pid = background.pid();
    let mut command = machine.program("/bin/sleep");
    let mut other = command.arg("60").spawn().unwrap();
    fs::write(machine.home().join("run/angelia.pid"), format!("{}\n", other.id())).unwrap();
    machine.angelia(&["stop"]).assert_code(0).assert_stdout(&pid.to_string());
    assert!(!is_alive(pid) && is_alive(other.id()));
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn serve_waits_for_a_daemon_that_ends() {
    let machine = Machine::new();
    let first = machine.serve();
    let running = machine.start(&["run", "--json", "!words 40 50"]);
    running.wait_for_stdout("word2");
    first.running.signal(Signal::TERM);
    let second = machine.serve();
    running.wait().assert_code(0).assert_stdout("word40");
    first.running.wait().assert_code(0);
    second.stop().assert_code(0).assert_stderr("starting or ending");
}

#[test]
fn serve_says_in_five_lines_what_it_is() {
    let machine = Machine::new();
    machine.configure(&format!(
        "profiles: {{default: {{executor: parrot, warm: 2, cwd: {}}}, other: {{executor: codex}}}}",
        machine.work().display()
    ));
    let serving = machine.serve();
    until("it says what is next", || serving.running.stderr().contains("  next    "));
    let home = machine.home();
    let said = serving.stop();
    let lines: Vec<&str> = said.stderr.lines().filter(|line| !line.contains(" INFO ")).collect();
    assert!(
        lines[0].starts_with("angelia ") && lines[0].contains("http://127.0.0.1:"),
        "{said:#?}"
    );
    assert_eq!(lines[1], format!("  token   {}", home.join("token").display()));
    assert_eq!(lines[2], format!("  log     {}", home.join("logs/angelia.log").display()));
    assert!(lines[3].starts_with("  agents  "), "{said:#?}");
    assert!(lines[3].contains("✓ default: parrot (2 warm)"), "{said:#?}");
    assert!(lines[3].contains("✗ other: codex, "), "{said:#?}");
    assert!(lines[4].contains("angelia run \"hello\""), "{said:#?}");
    // The log has the same, and nothing of it twice.
    let log = fs::read_to_string(home.join("logs/angelia.log")).unwrap();
    assert_eq!(log.matches("listens on http://").count(), 1, "{log}");
    assert!(log.contains("✓ default: parrot (2 warm)") && log.contains("shutting down"), "{log}");
}

#[test]
fn the_log_is_followed_and_its_size_is_limited() {
    let mut background = BackgroundMachine::new("log: {max_size: 2KiB, keep: 2}\n");
    background.0.angelia(&["logs"]).assert_code(1).assert_stderr("angelia start");
    background.0.set("ANGELIA_LOG", "debug");
    let machine = &background.0;
    let following = machine.start(&["logs", "-f", "-n", "0"]);
    machine.angelia(&["start"]).assert_code(0);
    let logs = machine.home().join("logs");
    let mut turns = 0;
    while !logs.join("angelia.log.2").exists() {
        machine.angelia(&["run", &format!("turn {turns}")]).assert_code(0);
        turns += 1;
        assert!(turns < 200, "it is never put aside");
    }
    for _ in 0..turns {
        machine.angelia(&["run", "more"]).assert_code(0);
    }
    machine.angelia(&["stop"]).assert_code(0);
    until("the end is followed", || following.stdout().contains("shutting down"));
    assert!(following.stdout().contains("listens on http://"), "{}", following.stdout());
    following.signal(Signal::INT);
    assert!(!logs.join("angelia.log.3").exists());
    for name in ["angelia.log", "angelia.log.1", "angelia.log.2"] {
        let size = fs::metadata(logs.join(name)).unwrap().len();
        assert!(size <= 2048 + 1024, "{name}: {size}");
    }
}

/// Claude Code takes 170 MB when it is idle, and nobody continues most one-off runs.
#[test]
fn a_one_off_run_leaves_no_idle_process_behind() {
    let machine = Machine::new();
    machine.configure(
        "sessions: {one_off_idle_ttl: 1s}\nprofiles: {default: {executor: parrot, warm: 0}}\n",
    );
    let _serving = machine.serve();
    let turn = machine.turn(&["!who"]);
    let kept = machine.turn(&["-s", "work", "!who"]);
    until("the process of the one-off run is released", || agent_pids(&machine).len() == 1);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let again = machine.turn(&["-s", "work", "!who"]);
    assert!(again.text().contains("turn 2 of"), "it has stayed hot: {kept:#?} {again:#?}");
    // A one-off run that is continued after all gets the usual time.
    machine.turn(&["-s", turn.session(), "!who"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let again = machine.turn(&["-s", turn.session(), "!who"]);
    assert!(again.text().contains("turn 2 of"), "{again:#?}");
}
