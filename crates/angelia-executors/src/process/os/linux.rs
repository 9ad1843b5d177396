//! Linux: `/proc` shows the environment of every process, and a pidfd identifies a process even
//! after its pid has been reused.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
    thread,
    time::Duration,
};

use memchr::memmem;
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open, pidfd_send_signal,
};
use tokio::time::sleep;

use super::{
    super::mark::{self, ProcessMark},
    ProcessRow, StartTime,
};

/// The interval for polling a process's exit. (Waiting on the pidfd would need unsafe code.)
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// How often to read the environment of a process that is in the middle of an `exec`, and the pause
/// between reads.
const MAX_EXEC_READS: usize = 50;
const EXEC_READ_DELAY: Duration = Duration::from_micros(100);
/// After this many further empty reads, an environment counts as empty.
const MAX_EMPTY_READS: usize = 3;

/// No environment is longer: the kernel limits arguments and environment to 6 MiB.
const MAX_PROC_FILE_BYTES: usize = 8 * 1024 * 1024;

/// Does nothing: on Linux the processes' environments serve as the ledger.
#[expect(clippy::unnecessary_wraps, reason = "on macOS this writes a file")]
pub(in super::super) fn record_in_ledger(
    _ledger: &Path,
    _mark: &ProcessMark,
    _leader: Pid,
) -> io::Result<()> {
    Ok(())
}

pub(in super::super) fn remove_from_ledger(_ledger: &Path, _mark: &ProcessMark) {}

pub(in super::super) fn start_time(pid: Pid) -> Option<StartTime> {
    ProcReader::default().read_stat(pid).map(|stat| stat.row.start)
}

/// Returns our user's processes whose mark matches.
pub(in super::super) fn find_marked(
    _ledger: &Path,
    wanted: &dyn Fn(&ProcessMark) -> bool,
) -> Vec<ProcessHandle> {
    let mut proc = ProcReader::default();
    let mut found = Vec::new();
    for pid in pids() {
        let mut is_wanted = || proc.read_mark(pid).is_some_and(|mark| wanted(&mark));
        if !is_wanted() || !belongs_to_our_user(pid) {
            continue;
        }
        // Check the mark again now that the handle is open: the pid could have been reused before.
        if let Some(handle) = ProcessHandle::open(pid)
            && is_wanted()
        {
            found.push(handle);
        }
    }
    found
}

/// Returns all running processes.
pub(in super::super) fn list_processes() -> Vec<ProcessRow> {
    let mut proc = ProcReader::default();
    pids()
        .filter_map(|pid| proc.read_stat(pid))
        .filter(|stat| !stat.dead)
        .map(|stat| stat.row)
        .collect()
}

/// Returns the mark that a process was started with.
pub(in super::super) fn mark_of(pid: Pid) -> Option<ProcessMark> {
    ProcReader::default().read_mark(pid)
}

/// Returns the resident memory of a process.
pub(in super::super) fn resident_bytes(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the name of the program that a process runs.
pub(in super::super) fn program_name(pid: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()?;
    Some(name.trim_end().to_owned())
}

/// Reports whether the process and its descendants are exempt from sweeps.
pub(in super::super) fn is_released(pid: Pid) -> bool {
    ProcReader::default()
        .read_mark_variable(pid)
        .is_some_and(|value| value == mark::RELEASED_MARK.as_bytes())
}

/// A handle to one process. A later process with the same pid is never mistaken for it.
#[derive(Debug)]
pub struct ProcessHandle {
    row: ProcessRow,
    /// `None` on kernels without pidfds (before 5.3), where the start time is compared before every
    /// signal.
    pidfd: Option<OwnedFd>,
}

impl ProcessHandle {
    /// Opens a handle to the process that has this pid now. Data read from `/proc` *afterwards* is
    /// about this process, unless it is dead and can no longer be signalled.
    pub fn open(pid: Pid) -> Option<Self> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
        let stat = ProcReader::default().read_stat(pid).filter(|stat| !stat.dead)?;
        Some(Self { row: stat.row, pidfd })
    }

    pub(in super::super) fn pid(&self) -> Pid {
        self.row.pid
    }

    pub(in super::super) fn row(&self) -> &ProcessRow {
        &self.row
    }

    /// Reports whether the pid still belongs to this process and the process is running.
    pub fn is_current(&self) -> bool {
        let now = ProcReader::default().read_stat(self.row.pid);
        now.is_some_and(|stat| !stat.dead && stat.row.start == self.row.start)
    }

    /// Signals this process and no other. Does nothing if it has exited.
    pub fn signal(&self, signal: Signal) {
        _ = match &self.pidfd {
            Some(pidfd) => pidfd_send_signal(pidfd, signal),
            None if self.is_current() => kill_process(self.row.pid, signal),
            None => Ok(()),
        };
    }

    /// Waits until the process has exited.
    pub(in super::super) async fn wait_gone(&self) {
        while self.is_current() {
            sleep(EXIT_POLL_INTERVAL).await;
        }
    }
}

/// Lists the processes (not threads) in `/proc`.
fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").inspect_err(|error| {
        tracing::warn!(%error, "/proc cannot be read: leftover agent processes are not found");
    });
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
}

/// Reports whether the process belongs to our user. Without this check, root could kill other
/// users' processes.
fn belongs_to_our_user(pid: Pid) -> bool {
    let folder = fs::metadata(format!("/proc/{}", pid.as_raw_nonzero()));
    folder.is_ok_and(|folder| folder.uid() == geteuid().as_raw())
}

struct ProcStat {
    row: ProcessRow,
    /// The process is a zombie or dead.
    dead: bool,
    environment: EnvironmentState,
}

/// The state of a process whose environment reads as empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EnvironmentState {
    /// A kernel thread or a zombie.
    None,
    /// The process has no variables or, rarely, the kernel has not set them up yet.
    Empty,
    /// The process is in the middle of an `exec`.
    Pending,
}

/// Reads files in `/proc`, reusing its buffers for all processes.
#[derive(Default)]
struct ProcReader {
    path: String,
    bytes: Vec<u8>,
    read: usize,
}

impl ProcReader {
    fn read_mark(&mut self, pid: Pid) -> Option<ProcessMark> {
        std::str::from_utf8(self.read_mark_variable(pid)?).ok()?.parse().ok()
    }

    /// Returns the value of our variable in the environment with which the process was started.
    fn read_mark_variable(&mut self, pid: Pid) -> Option<&[u8]> {
        let mut looked_empty = 0;
        for _ in 0..MAX_EXEC_READS {
            // The environments of other users' processes and of non-dumpable processes cannot be
            // read; such processes count as unmarked.
            self.load(pid, "environ")?;
            if self.read > 0 {
                return find_env_value(&self.bytes[..self.read], mark::MARK_VARIABLE);
            }
            match self.read_stat(pid)?.environment {
                EnvironmentState::None => return None,
                EnvironmentState::Empty if looked_empty == MAX_EMPTY_READS => return None,
                EnvironmentState::Empty => looked_empty += 1,
                EnvironmentState::Pending => looked_empty = 0,
            }
            thread::sleep(EXEC_READ_DELAY);
        }
        None
    }

    fn read_stat(&mut self, pid: Pid) -> Option<ProcStat> {
        self.load(pid, "stat")?;
        parse_stat(pid, &self.bytes[..self.read])
    }

    fn load(&mut self, pid: Pid, file: &str) -> Option<()> {
        self.path.clear();
        write!(self.path, "/proc/{}/{file}", pid.as_raw_nonzero()).ok()?;
        let mut source = File::open(&self.path).ok()?;
        self.read = 0;
        loop {
            if self.read == self.bytes.len() {
                if self.read >= MAX_PROC_FILE_BYTES {
                    return None;
                }
                self.bytes.resize((self.read * 2).max(16 * 1024), 0);
            }
            match source.read(&mut self.bytes[self.read..]) {
                Ok(0) => return Some(()),
                Ok(read) => self.read += read,
                Err(_) => return None,
            }
        }
    }
}

/// Returns the value of the first `name=value` in a NUL-separated block, like `getenv`.
fn find_env_value<'a>(block: &'a [u8], name: &str) -> Option<&'a [u8]> {
    memmem::find_iter(block, name).find_map(|at| {
        let starts_an_entry = at == 0 || block[at - 1] == 0;
        let value = block[at + name.len()..].strip_prefix(b"=").filter(|_| starts_an_entry)?;
        Some(&value[..memchr::memchr(0, value).unwrap_or(value.len())])
    })
}

/// Parses `pid (name) state ppid …` (see proc(5)). The name may contain any characters, including
/// spaces and parentheses.
fn parse_stat(pid: Pid, line: &[u8]) -> Option<ProcStat> {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let after_name = &line[memchr::memrchr(b')', line)? + 1..];
    // The manual counts fields from 1; the name is field 2, so `fields` starts at field 3.
    let mut fields = std::str::from_utf8(after_name).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let mut numbers = fields.map(|field| field.parse::<u64>().unwrap_or(0));
    let parent = i32::try_from(numbers.next()?).ok().and_then(Pid::from_raw);
    let flags = numbers.nth(9 - 5)?;
    let start = StartTime(numbers.nth(22 - 10)?);
    let env_start = numbers.nth(50 - 23)?;
    let env_end = numbers.next()?;

    let dead = matches!(state, "Z" | "X" | "x");
    let environment = if dead || flags & KERNEL_THREAD != 0 {
        EnvironmentState::None
    } else if env_end != 0 && env_start == env_end {
        EnvironmentState::Empty
    } else {
        EnvironmentState::Pending
    };
    Some(ProcStat { row: ProcessRow { pid, parent, start }, dead, environment })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::from_raw(raw).unwrap()
    }

    fn ourselves() -> Pid {
        rustix::process::getpid()
    }

    #[test]
    fn only_a_whole_variable_is_found() {
        let block = b"PATH=/bin\0X_ANGELIA_AGENT=no\0ANGELIA_AGENTS=no\0NOTE=ANGELIA_AGENT=no\0\
            ANGELIA_AGENT=a:b:c\0ANGELIA_AGENT=second\0";
        assert_eq!(find_env_value(block, mark::MARK_VARIABLE), Some(&b"a:b:c"[..]));
        assert_eq!(
            find_env_value(b"ANGELIA_AGENT=cut off", mark::MARK_VARIABLE),
            Some(&b"cut off"[..])
        );
        assert_eq!(find_env_value(b"ANGELIA_AGENT=\0", mark::MARK_VARIABLE), Some(&b""[..]));
        for block in [&b""[..], b"ANGELIA_AGENT", b"ANGELIA_AGENT\0", b"\0\0"] {
            assert_eq!(find_env_value(block, mark::MARK_VARIABLE), None);
        }
    }

    #[test]
    fn a_name_cannot_disguise_a_process() {
        let stat = parse_stat(pid(42), &stat_line("a) Z 1 (b", "S", 0, [7, 8])).unwrap();
        assert_eq!(stat.row.parent, Some(pid(7)));
        assert_eq!(stat.row.start, StartTime(9876));
        assert!(!stat.dead);
        for broken in [&b""[..], b"42 (a", b"42 (a) S", b"42 (a) S x", b"42 (a) S 1 2 3"] {
            assert!(parse_stat(pid(42), broken).is_none());
        }
    }

    #[test]
    fn an_environment_that_is_not_there_yet_is_told_from_an_empty_one() {
        let of = |state, flags, env| {
            parse_stat(pid(42), &stat_line("a", state, flags, env)).unwrap().environment
        };
        assert_eq!(of("R", 0x40_0000, [0, 0]), EnvironmentState::Pending);
        assert_eq!(of("R", 0x40_0000, [5000, 5000]), EnvironmentState::Empty);
        assert_eq!(of("I", 0x20_8040, [0, 0]), EnvironmentState::None);
        assert_eq!(of("Z", 0x40_0000, [0, 0]), EnvironmentState::None);
        // The environment was empty when read but exists now: an `exec` has just completed.
        assert_eq!(of("R", 0x40_0000, [5000, 6000]), EnvironmentState::Pending);
    }

    fn stat_line(name: &str, state: &str, flags: u64, [env_start, env_end]: [u64; 2]) -> Vec<u8> {
        let to_22 = "1 2 3 4 5 6 7 8 20 0 1 0 9876";
        let to_49 = "0 ".repeat(49 - 22);
        format!("42 ({name}) {state} 7 42 42 0 -1 {flags} {to_22} {to_49}{env_start} {env_end} 0\n")
            .into_bytes()
    }

    #[test]
    fn the_table_holds_us_and_our_parent() {
        let table = list_processes();
        let us = table.iter().find(|row| row.pid == ourselves()).unwrap();
        assert_eq!(us.parent, rustix::process::getppid());
        assert_eq!(Some(us.start), start_time(ourselves()));
    }

    /// A later process with a reused pid has another start time and is not signalled. (With a
    /// pidfd, the kernel guarantees this; this test runs without one.)
    #[test]
    fn a_recycled_pid_is_not_signalled() {
        let us = ProcessHandle::open(ourselves()).unwrap();
        assert!(us.is_current());
        let recycled = ProcessRow { start: StartTime(us.row.start.0 - 1), ..us.row };
        let remembered = ProcessHandle { row: recycled, pidfd: None };
        assert!(!remembered.is_current());
        remembered.signal(Signal::KILL); // would end this test
    }
}
