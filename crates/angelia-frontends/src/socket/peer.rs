//! Who is at the other end of a Unix socket, as the kernel tells it: the owner or somebody else,
//! and a person's program or an agent's.
//!
//! Agents run as the owner's user, so the user alone does not say who decides. What an agent starts
//! carries our mark in its environment, and so does whatever that starts; a process that has
//! dropped the mark still has ancestors that carry it. This stops an agent that goes the ordinary
//! way, not one that works at being mistaken for somebody else.

use tokio::net::UnixStream;

/// The variable that every process of an agent carries.
pub const AGENT_MARK: &str = "ANGELIA_AGENT";

/// What stands in place of a mark in a daemon that an agent happened to start.
const RELEASED: &[u8] = b"released";

/// The process at the other end, at the time it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    uid: u32,
    pid: Option<u32>,
}

impl Peer {
    pub fn of(stream: &UnixStream) -> std::io::Result<Self> {
        let credentials = stream.peer_cred()?;
        Ok(Self {
            uid: credentials.uid(),
            pid: credentials.pid().and_then(|pid| u32::try_from(pid).ok()),
        })
    }

    pub const fn new(uid: u32, pid: Option<u32>) -> Self {
        Self { uid, pid }
    }

    /// The same user as ours.
    pub fn is_owner(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }

    /// It, or something that started it, belongs to an agent. Also `true` when that cannot be
    /// found out, because it has gone or is hidden from us.
    pub async fn is_agent(&self) -> bool {
        let pid = self.pid;
        let looked = tokio::task::spawn_blocking(move || system::is_marked(pid));
        looked.await.unwrap_or(true)
    }
}

/// The mark of the nearest process above this one that carries one, also where this one has lost
/// its own.
pub fn own_mark() -> Option<String> {
    system::mark_above(std::process::id())
}

/// Does this environment, as the kernel shows it, carry a mark?
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
        (!mark.is_empty() && mark != RELEASED).then_some(mark)
    })
}

#[cfg(target_os = "linux")]
mod system {
    //! Linux: `/proc` tells.

    use std::fs;

    use super::{carries_mark, mark_in};

    /// Deeper than any chain of shells and tools; a bound in case the table changes under us.
    const ANCESTORS: usize = 64;

    pub(super) fn is_marked(pid: Option<u32>) -> bool {
        // Zero: the peer lives where we cannot see it.
        let Some(mut pid) = pid.filter(|pid| *pid != 0) else {
            return true;
        };
        match fs::read(format!("/proc/{pid}/environ")) {
            Ok(environ) if carries_mark(&environ) => return true,
            Ok(_) => {}
            Err(_gone_or_hidden) => return true,
        }
        for _ in 0..ANCESTORS {
            let Some(parent) = parent(pid).filter(|parent| *parent > 1) else {
                break;
            };
            pid = parent;
            // Ancestors of other users (a login daemon, sudo) are hidden from us and are no agents.
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if carries_mark(&environ) {
                return true;
            }
        }
        false
    }

    pub(super) fn mark_above(mut pid: u32) -> Option<String> {
        for _ in 0..ANCESTORS {
            pid = parent(pid).filter(|parent| *parent > 1)?;
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if let Some(mark) = mark_in(&environ) {
                return Some(String::from_utf8_lossy(mark).into_owned());
            }
        }
        None
    }

    /// The fourth field of `stat`; the second is a name in parentheses that may hold anything.
    fn parent(pid: u32) -> Option<u32> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
        rest.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! Elsewhere one process cannot read another's environment; the documents say so.

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
