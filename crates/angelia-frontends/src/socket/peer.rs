//! The process at the other end of a Unix socket, as the kernel reported it when it connected.

use std::{os::fd::OwnedFd, sync::Arc};

use tokio::{net::UnixStream, sync::OnceCell};

use super::{LocalCaller, ancestry};

/// The process at the other end, as it was when it connected.
#[derive(Clone, Debug)]
pub struct Peer {
    uid: u32,
    process: Arc<PeerProcess>,
}

#[derive(Debug)]
struct PeerProcess {
    pid: Option<u32>,
    /// Tells whether the pid still belongs to the process that connected. `None` on systems without
    /// pidfds.
    handle: Option<OwnedFd>,
    caller: OnceCell<LocalCaller>,
}

impl Peer {
    pub fn from_stream(stream: &UnixStream) -> std::io::Result<Self> {
        let credentials = stream.peer_cred()?;
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
        let process = match pid.map(process_handle) {
            Some(Ok(handle)) => PeerProcess { pid, handle, caller: OnceCell::new() },
            Some(Err(Exited)) | None => {
                PeerProcess { pid: None, handle: None, caller: OnceCell::new() }
            }
        };
        Ok(Self { uid: credentials.uid(), process: Arc::new(process) })
    }

    pub fn new(uid: u32, pid: Option<u32>) -> Self {
        let process = PeerProcess { pid, handle: None, caller: OnceCell::new() };
        Self { uid, process: Arc::new(process) }
    }

    /// Returns whether the process runs as the same user as ours.
    pub fn is_owner(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }

    /// Identifies the process, once per connection.
    pub async fn caller(&self) -> LocalCaller {
        let identify = || async {
            let process = Arc::clone(&self.process);
            let identified = tokio::task::spawn_blocking(move || process.identify()).await;
            identified.unwrap_or(LocalCaller::Unidentified)
        };
        self.process.caller.get_or_init(identify).await.clone()
    }
}

impl PeerProcess {
    fn identify(&self) -> LocalCaller {
        let Some(pid) = self.pid else {
            return LocalCaller::Unidentified;
        };
        let caller = ancestry::caller_of(pid);
        // Checked last: while the process lives, its pid belongs to no other process.
        if self.handle.as_ref().is_some_and(has_exited) {
            return LocalCaller::Unidentified;
        }
        caller
    }
}

/// The process exited between its `connect` and our `accept`.
struct Exited;

#[cfg(target_os = "linux")]
fn process_handle(pid: u32) -> Result<Option<OwnedFd>, Exited> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Exited)?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok(Some(handle)),
        Err(rustix::io::Errno::SRCH) => Err(Exited),
        // Kernels before 5.3 have no pidfds, and descriptors may have run out.
        Err(_unavailable) => Ok(None),
    }
}

#[cfg(not(target_os = "linux"))]
fn process_handle(_pid: u32) -> Result<Option<OwnedFd>, Exited> {
    Ok(None)
}

/// Returns whether the process has exited, which makes its pidfd readable.
fn has_exited(handle: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(handle, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut fds, Some(&at_once)), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_peer_that_cannot_be_seen_is_not_trusted() {
        let ours = rustix::process::geteuid().as_raw();
        for pid in [None, Some(0), Some(u32::MAX)] {
            assert_eq!(Peer::new(ours, pid).caller().await, LocalCaller::Unidentified);
        }
        assert!(Peer::new(ours, Some(1)).is_owner());
        assert!(!Peer::new(ours + 1, Some(1)).is_owner());
    }
}
