//! Searches a process and all its ancestors for the marks of agents.
//!
//! Every process that an agent starts inherits our mark in its environment. A process that has
//! dropped the mark still has ancestors that carry it, so every mark on the way counts. A process
//! that drops the mark and is then orphaned on purpose is not found (SECURITY.md).

use super::LocalCaller;

/// The environment variable with the mark that every process of an agent carries.
const MARK_VARIABLE: &str = "ANGELIA_AGENT";

/// The value that replaces the mark in a daemon that an agent started.
const RELEASED_MARK: &[u8] = b"released";

/// The prefix of the last part of the mark of a hook or of a rule's command. These are the owner's
/// own programs, and their mark only serves to end them.
const COMMAND_PREFIX: &[u8] = b"command-";

/// Identifies the process that has this pid now.
pub(super) fn caller_of(pid: u32) -> LocalCaller {
    system::caller_of(pid)
}

pub(super) fn caller_of_this_process(own_mark: Option<&str>) -> LocalCaller {
    if cfg!(target_os = "linux") {
        return caller_of(std::process::id());
    }
    match own_mark.filter(|mark| counts(mark.as_bytes())) {
        Some(mark) => LocalCaller::Agent([mark.to_owned()].into()),
        None => LocalCaller::Owner,
    }
}

/// Returns whether the value of the variable is the mark of an agent.
fn counts(mark: &[u8]) -> bool {
    let last = mark.rsplit(|byte| *byte == b':').next().unwrap_or_default();
    !mark.is_empty() && mark != RELEASED_MARK && !last.starts_with(COMMAND_PREFIX)
}

/// Returns the mark in an environment, in the format of `/proc/PID/environ`.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only Linux shows other processes' environments")
)]
fn find_mark(environ: &[u8]) -> Option<String> {
    environ.split(|byte| *byte == 0).find_map(|variable| {
        let rest = variable.strip_prefix(MARK_VARIABLE.as_bytes())?;
        let mark = rest.strip_prefix(b"=")?;
        counts(mark).then(|| String::from_utf8_lossy(mark).into_owned())
    })
}

#[cfg(target_os = "linux")]
mod system {
    //! Linux: reads the environments and parents of processes from `/proc`.

    use std::{
        fs::File,
        io::{self, Read as _},
    };

    use super::{LocalCaller, find_mark};

    /// More than any real chain of shells and tools. A longer chain is not identified.
    const MAX_ANCESTORS: usize = 256;

    /// How often we try when a process on the way exits during the search.
    const MAX_ATTEMPTS: usize = 5;

    /// A process on the way has exited, so the data read so far is inconsistent.
    struct Changed;

    pub(super) fn caller_of(pid: u32) -> LocalCaller {
        // The kernel reports 0 for a peer in a PID namespace that we cannot see.
        if pid == 0 {
            return LocalCaller::Unidentified;
        }
        let mut attempts = (0..MAX_ATTEMPTS).map(|_| walk(pid));
        attempts.find_map(Result::ok).unwrap_or(LocalCaller::Unidentified)
    }

    fn walk(pid: u32) -> Result<LocalCaller, Changed> {
        let Ok(environ) = read_environ(pid) else {
            return Ok(LocalCaller::Unidentified);
        };
        let mut marks: Vec<String> = find_mark(&environ).into_iter().collect();
        let mut child = pid;
        for _ in 0..MAX_ANCESTORS {
            let parent = parent(child).ok_or(Changed)?;
            // Stop at this process: its own ancestors started it, not the caller.
            if parent <= 1 || parent == std::process::id() {
                return Ok(if marks.is_empty() {
                    LocalCaller::Owner
                } else {
                    LocalCaller::Agent(marks.into())
                });
            }
            let environ = read_environ(parent);
            // If this changed, the parent has exited, and its pid may belong to another process.
            if self::parent(child) != Some(parent) {
                return Err(Changed);
            }
            match environ {
                Ok(environ) => marks.extend(find_mark(&environ)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Changed),
                // Ancestors of other users (a login daemon, sudo) are hidden from us and are not
                // agents; an agent above them is still found.
                Err(_hidden) => {}
            }
            child = parent;
        }
        Ok(LocalCaller::Unidentified)
    }

    fn read_environ(pid: u32) -> io::Result<Vec<u8>> {
        read_file(&format!("/proc/{pid}/environ"))
    }

    /// Reads a file whose size the kernel does not report. `fs::read` would begin with a few bytes,
    /// and need many reads for every process on the way.
    fn read_file(path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(8192);
        File::open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the parent's pid, the fourth field of `stat`. The second field is a name in
    /// parentheses that may contain anything, so fields are counted after the last parenthesis.
    fn parent(pid: u32) -> Option<u32> {
        let stat = read_file(&format!("/proc/{pid}/stat")).ok()?;
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
        rest.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! On other systems, a process cannot read another one's environment, as documented.

    use super::LocalCaller;

    pub(super) fn caller_of(_pid: u32) -> LocalCaller {
        LocalCaller::Owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_variable_itself_with_a_value() {
        let environ = b"A=1\0ANGELIA_AGENT=h:o:a\0B=2\0";
        assert_eq!(find_mark(environ).as_deref(), Some("h:o:a"));
        assert!(find_mark(b"ANGELIA_AGENT=anything").is_some());
        for other in [
            &b""[..],
            b"ANGELIA_AGENT=\0",
            b"ANGELIA_AGENT=released\0",
            b"ANGELIA_AGENT=h:o:command-1\0",
            b"ANGELIA_AGENTS=h:o:a\0",
            b"X=ANGELIA_AGENT=h:o:a\0",
        ] {
            assert_eq!(find_mark(other), None, "{}", other.escape_ascii());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_cannot_be_seen_is_not_identified() {
        assert_eq!(caller_of(0), LocalCaller::Unidentified);
        assert_eq!(caller_of(u32::MAX), LocalCaller::Unidentified);
    }
}
