//! The process at the other end of a Unix socket, as the kernel reports it: whether its user is the
//! owner, and whether an agent started it.
//!
//! Agents run as the owner's user, so the user id alone does not tell a person from an agent. Every
//! process that an agent starts inherits our mark in its environment; a process that has dropped
//! the mark still has ancestors that carry it. This detects an agent that acts normally, not one
//! that actively disguises itself.

use tokio::net::UnixStream;

/// The environment variable with the mark that every process of an agent carries.
pub const AGENT_MARK: &str = "ANGELIA_AGENT";

/// The value that replaces the mark in a daemon that an agent started.
const RELEASED_MARK: &[u8] = b"released";

/// The process at the other end, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    uid: u32,
    pid: Option<u32>,
}

impl Peer {
    pub fn from_stream(stream: &UnixStream) -> std::io::Result<Self> {
        let credentials = stream.peer_cred()?;
        Ok(Self {
            uid: credentials.uid(),
            pid: credentials.pid().and_then(|pid| u32::try_from(pid).ok()),
        })
    }

    pub const fn new(uid: u32, pid: Option<u32>) -> Self {
        Self { uid, pid }
    }

    /// Returns whether the process has the same user as ours.
    pub fn is_owner(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }

    /// Returns whether the process or one of its ancestors belongs to an agent. Also `true` if that
    /// cannot be determined, because the process has exited or is hidden from us.
    pub async fn is_agent(&self) -> bool {
        let pid = self.pid;
        let looked = tokio::task::spawn_blocking(move || system::is_marked(pid));
        looked.await.unwrap_or(true)
    }
}

/// Returns the mark of the nearest ancestor of this process that carries one, even if this process
/// has lost its own.
pub fn inherited_mark() -> Option<String> {
    system::mark_above(std::process::id())
}

/// Returns whether an environment, in the format of `/proc/PID/environ`, contains a mark.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only Linux shows other processes' environments")
)]
fn carries_mark(environ: &[u8]) -> bool {
    mark_in(environ).is_some()
}

fn mark_in(environ: &[u8]) -> Option<&[u8]> {
    environ.split(|byte| *byte == 0).find_map(|variable| {
        let rest = variable.strip_prefix(AGENT_MARK.as_bytes())?;
        let mark = rest.strip_prefix(b"=")?;
        (!mark.is_empty() && mark != RELEASED_MARK).then_some(mark)
    })
}

#[cfg(target_os = "linux")]
mod system {
    //! Linux: reads the environments and parents of processes from `/proc`.

    use std::fs;

    use super::{carries_mark, mark_in};

    /// More than any chain of shells and tools. A bound in case the process table changes while we
    /// read it.
    const MAX_ANCESTORS: usize = 64;

    pub(super) fn is_marked(pid: Option<u32>) -> bool {
        // The kernel reports 0 for a peer in a PID namespace that we cannot see.
        let Some(mut pid) = pid.filter(|pid| *pid != 0) else {
            return true;
        };
        match fs::read(format!("/proc/{pid}/environ")) {
            Ok(environ) if carries_mark(&environ) => return true,
            Ok(_) => {}
            Err(_gone_or_hidden) => return true,
        }
        for _ in 0..MAX_ANCESTORS {
            let Some(parent) = parent(pid).filter(|parent| *parent > 1) else {
                break;
            };
            pid = parent;
            // Ancestors of other users (a login daemon, sudo) are hidden from us; they are not
            // agents.
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if carries_mark(&environ) {
                return true;
            }
        }
        false
    }

    pub(super) fn mark_above(mut pid: u32) -> Option<String> {
        for _ in 0..MAX_ANCESTORS {
            pid = parent(pid).filter(|parent| *parent > 1)?;
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if let Some(mark) = mark_in(&environ) {
                return Some(String::from_utf8_lossy(mark).into_owned());
            }
        }
        None
    }

    /// Returns the parent's pid, the fourth field of `stat`. The second field is a name in
    /// parentheses that may contain anything, so the fields are counted after the last parenthesis.
    fn parent(pid: u32) -> Option<u32> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
        rest.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! On other systems a process cannot read another's environment; the documentation says so.

    pub(super) fn is_marked(_pid: Option<u32>) -> bool {
        false
    }

    pub(super) fn mark_above(_pid: u32) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_variable_itself_with_a_value() {
        assert!(carries_mark(b"A=1\0ANGELIA_AGENT=h:o:a\0B=2\0"));
        assert!(carries_mark(b"ANGELIA_AGENT=anything"));
        for other in [
            &b""[..],
            b"ANGELIA_AGENT=\0",
            b"ANGELIA_AGENT=released\0",
            b"ANGELIA_AGENTS=h:o:a\0",
            b"X=ANGELIA_AGENT=h:o:a\0",
        ] {
            assert!(!carries_mark(other), "{}", other.escape_ascii());
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_peer_that_cannot_be_seen_is_not_trusted() {
        let ours = rustix::process::geteuid().as_raw();
        assert!(Peer::new(ours, None).is_agent().await);
        assert!(Peer::new(ours, Some(0)).is_agent().await);
        assert!(Peer::new(ours, Some(u32::MAX)).is_agent().await);
        assert!(Peer::new(ours, Some(1)).is_owner());
        assert!(!Peer::new(ours + 1, Some(1)).is_owner());
    }
}
