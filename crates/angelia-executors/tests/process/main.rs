//! Process supervision against real processes: shells, sleepers, floods and runaways.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands;
#[cfg(target_os = "linux")]
mod confinement;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "shared with the tests of the executors")]
#[path = "../isolated_executor/mod.rs"]
mod isolated_executor;
mod run_to_end;
mod spawn;
#[cfg(target_os = "linux")]
mod sweep;
mod terminate;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use angelia_executors::process::{
    AgentId, Child, HomeId, OwnerId, ProcessLaunch, ProcessMark, spawn::spawn,
};
use rustix::process::{Pid, test_kill_process};
use tokio::{
    io::AsyncReadExt,
    time::{Instant, sleep, timeout},
};

/// Longer than any step here takes; only a broken test waits this long.
const DEADLINE: Duration = Duration::from_secs(20);

/// Returns a mark that is unique, also across other runs of these tests.
fn fresh_mark() -> ProcessMark {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let unique = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    ProcessMark {
        home: HomeId::new(&format!("test-home-{unique}")).unwrap(),
        owner: OwnerId::new("owner").unwrap(),
        agent: AgentId::new(&unique).unwrap(),
    }
}

fn shell(script: &str) -> ProcessLaunch {
    ProcessLaunch {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        mark: fresh_mark(),
        ledger: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ledger"),
    }
}

/// Starts a script and waits for the line that reports it ready.
async fn start(script: &str) -> (Child, String) {
    let mut child = spawn(&shell(script)).await.unwrap();
    let line = timeout(DEADLINE, read_line(&mut child)).await.unwrap();
    (child, line)
}

/// Starts a script that prints the pid of a grandchild that outlives it.
async fn start_with_grandchild(script: &str) -> (Child, Pid) {
    let (child, line) = start(script).await;
    (child, parse_pid(&line))
}

async fn read_line(child: &mut Child) -> String {
    let stdout = child.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    loop {
        match stdout.read_u8().await.unwrap() {
            b'\n' => return String::from_utf8(line).unwrap(),
            byte => line.push(byte),
        }
    }
}

fn parse_pid(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.pid().try_into().unwrap()).unwrap()
}

/// Reports whether the process runs; a zombie that waits to be reaped does not count.
fn is_alive(pid: Pid) -> bool {
    if cfg!(target_os = "linux") {
        state_of(pid).is_some_and(|state| state != 'Z')
    } else {
        test_kill_process(pid).is_ok()
    }
}

fn state_of(pid: Pid) -> Option<char> {
    angelia_testkit::process_table::state(pid.as_raw_pid())?.chars().next()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
