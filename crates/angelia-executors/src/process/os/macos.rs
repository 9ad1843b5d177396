//! macOS has neither `/proc` nor pidfds. `ps` provides the process table, and a ledger on disk
//! records which pids (with their start times) belong to which mark.
//!
//! Untested on a real macOS; the tests run it on Linux, whose `ps` understands the same options. It
//! is weaker than the Linux version in two ways: it does not find a descendant that left its parent
//! *and* was started after the last ledger entry, and start times have a resolution of one second.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use jiff::civil::DateTime;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::time::sleep;

use super::{super::mark::ProcessMark, ProcessRow, StartTime};

const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Records the group leader of a mark and all its current descendants in the ledger.
pub(in super::super) fn record_in_ledger(
    ledger: &Path,
    mark: &ProcessMark,
    leader: Pid,
) -> io::Result<()> {
    let table = list_processes();
    let mut family: Vec<&ProcessRow> = table.iter().filter(|row| row.pid == leader).collect();
    let mut next = 0;
    while let Some(parent) = family.get(next).map(|row| row.pid) {
        family.extend(table.iter().filter(|row| row.parent == Some(parent)));
        next += 1;
    }
    let mut lines = String::new();
    for row in family {
        _ = writeln!(lines, "{} {}", row.pid.as_raw_nonzero(), row.start.0);
    }
    fs::create_dir_all(ledger)?;
    fs::write(ledger_file(ledger, mark), lines)
}

/// Removes the ledger file of a mark whose processes are all gone.
pub(in super::super) fn remove_from_ledger(ledger: &Path, mark: &ProcessMark) {
    _ = fs::remove_file(ledger_file(ledger, mark));
}

pub(in super::super) fn start_time(pid: Pid) -> Option<StartTime> {
    row_of(pid).map(|row| row.start)
}

/// Returns the processes that the ledger lists under a matching mark and whose pid was not reused.
pub(in super::super) fn find_marked(
    ledger: &Path,
    wanted: &dyn Fn(&ProcessMark) -> bool,
) -> Vec<ProcessHandle> {
    let Ok(pages) = fs::read_dir(ledger) else {
        return Vec::new();
    };
    let marks =
        pages.filter_map(|page| page.ok()?.file_name().to_str()?.parse::<ProcessMark>().ok());
    let mut found = Vec::new();
    for mark in marks.filter(|mark| wanted(mark)) {
        let text = fs::read_to_string(ledger_file(ledger, &mark)).unwrap_or_default();
        let before = found.len();
        found.extend(text.lines().filter_map(parse_entry).filter_map(|(pid, start)| {
            ProcessHandle::open(pid).filter(|handle| handle.row.start == start)
        }));
        if found.len() == before {
            remove_from_ledger(ledger, &mark);
        }
    }
    found
}

/// Returns all running processes.
pub(in super::super) fn list_processes() -> Vec<ProcessRow> {
    ps(&["-ax"])
}

/// Returns `None`: environments cannot be read on macOS.
pub(in super::super) fn mark_of(_pid: Pid) -> Option<ProcessMark> {
    None
}

/// Returns `None`: without marks, no agent is recognised.
pub(in super::super) fn resident_bytes(_pid: Pid) -> Option<u64> {
    None
}

/// Returns `None`, for the same reason.
pub(in super::super) fn program_name(_pid: Pid) -> Option<String> {
    None
}

/// Returns `false`: environments cannot be read on macOS, so a released mark is not visible.
pub(in super::super) fn is_released(_pid: Pid) -> bool {
    false
}

/// A process identified by pid and start time; both are compared right before every signal.
#[derive(Debug)]
pub struct ProcessHandle {
    row: ProcessRow,
}

impl ProcessHandle {
    pub fn open(pid: Pid) -> Option<Self> {
        row_of(pid).map(|row| Self { row })
    }

    pub(in super::super) fn pid(&self) -> Pid {
        self.row.pid
    }

    pub(in super::super) fn row(&self) -> &ProcessRow {
        &self.row
    }

    pub fn is_current(&self) -> bool {
        row_of(self.row.pid).is_some_and(|row| row.start == self.row.start)
    }

    pub fn signal(&self, signal: Signal) {
        if self.is_current() {
            _ = kill_process(self.row.pid, signal);
        }
    }

    pub(in super::super) async fn wait_gone(&self) {
        // Check cheaply first: run `ps` only while some process has the pid.
        while test_kill_process(self.row.pid).is_ok() && self.is_current() {
            sleep(EXIT_POLL_INTERVAL).await;
        }
    }
}

fn ledger_file(ledger: &Path, mark: &ProcessMark) -> PathBuf {
    ledger.join(mark.to_string())
}

fn parse_entry(line: &str) -> Option<(Pid, StartTime)> {
    let (pid, start) = line.split_once(' ')?;
    Some((Pid::from_raw(pid.parse().ok()?)?, StartTime(start.parse().ok()?)))
}

fn row_of(pid: Pid) -> Option<ProcessRow> {
    ps(&["-p", &pid.as_raw_nonzero().to_string()]).first().copied()
}

fn ps(which: &[&str]) -> Vec<ProcessRow> {
    // One `-o` per column: in a list, BSD `ps` treats everything after the first `=` as a heading.
    const COLUMNS: [&str; 8] = ["-o", "pid=", "-o", "ppid=", "-o", "stat=", "-o", "lstart="];
    #[expect(clippy::disallowed_methods, reason = "this folder is the home of child processes")]
    let mut command = Command::new("/bin/ps");
    // A fixed locale and time zone make the times parseable whatever the user's settings are.
    let command = command.env_clear().envs([("LC_ALL", "C"), ("TZ", "UTC")]);
    match command.args(which).args(COLUMNS).output() {
        Ok(output) => {
            String::from_utf8_lossy(&output.stdout).lines().filter_map(parse_row).collect()
        }
        Err(error) => {
            tracing::warn!(%error, "`/bin/ps` cannot be run: leftover agent processes are not found");
            Vec::new()
        }
    }
}

/// Parses a line such as `  512     1 Ss   Sun Nov 15 20:04:11 2026`; returns `None` for zombies.
fn parse_row(line: &str) -> Option<ProcessRow> {
    let mut fields = line.split_ascii_whitespace();
    let pid = Pid::from_raw(fields.next()?.parse().ok()?)?;
    let parent = Pid::from_raw(fields.next()?.parse().ok()?);
    if fields.next()?.starts_with('Z') {
        return None;
    }
    let started = fields.collect::<Vec<_>>().join(" ");
    let started = DateTime::strptime("%a %b %d %H:%M:%S %Y", started).ok()?;
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let seconds = epoch.duration_until(started).as_secs();
    Some(ProcessRow { pid, parent, start: StartTime(u64::try_from(seconds).ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::from_raw(raw).unwrap()
    }

    #[test]
    fn agents_are_not_recognised() {
        let us = rustix::process::getpid();
        assert_eq!((mark_of(us), resident_bytes(us), program_name(us)), (None, None, None));
    }

    #[test]
    fn a_line_of_ps() {
        let row = parse_row("  512     1 Ss   Thu Jan  1 00:01:05 1970").unwrap();
        assert_eq!(row, ProcessRow { pid: pid(512), parent: Some(pid(1)), start: StartTime(65) });
        assert_eq!(parse_row("1 0 Ss Sat Nov 15 20:04:11 2025").unwrap().parent, None);
        assert!(parse_row("7 1 Z+ Thu Jan  1 00:01:05 1970").is_none());
        for broken in ["", "x", "1 1", "1 1 S", "1 1 S yesterday", "0 0 S Thu Jan 1 00:00:00 1970"]
        {
            assert!(parse_row(broken).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn the_ledger_gives_back_who_is_still_the_same() {
        if !Path::new("/bin/ps").exists() {
            return; // a minimal Linux; macOS always has it
        }
        let folder = tempfile::tempdir().unwrap();
        let mark: ProcessMark = "home:owner:agent".parse().unwrap();
        let us = rustix::process::getpid();
        let find = || find_marked(folder.path(), &|found| *found == mark);

        record_in_ledger(folder.path(), &mark, us).unwrap();
        let found = find();
        let ours = found.iter().find(|handle| handle.pid() == us).unwrap();
        assert!(ours.is_current() && !is_released(us));
        assert_eq!(Some(ours.row().start), start_time(us));
        assert!(find_marked(folder.path(), &|_| false).is_empty());

        // The same pid with another start time is another process: it is not found, and the ledger
        // file is removed.
        let strange = format!("{} 1\n", us.as_raw_nonzero());
        fs::write(ledger_file(folder.path(), &mark), strange).unwrap();
        assert!(find().is_empty());
        assert!(!ledger_file(folder.path(), &mark).exists());
    }

    #[tokio::test]
    async fn a_recycled_pid_is_not_signalled() {
        let us = rustix::process::getpid();
        let row = ProcessRow { pid: us, parent: None, start: StartTime(1) };
        let remembered = ProcessHandle { row };
        remembered.signal(Signal::KILL); // would end this test
        remembered.wait_gone().await;
    }
}
