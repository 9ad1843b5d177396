//! The process at the other end of a TCP connection. TCP carries no credentials, so a process on
//! this machine is found by its socket.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpStream, sync::OnceCell};

use super::LocalCaller;

/// The two addresses of a TCP connection, and the process at the other end.
#[derive(Clone, Debug)]
pub struct TcpPeer {
    /// Our address.
    pub local: SocketAddr,
    remote: SocketAddr,
    caller: Arc<OnceCell<LocalCaller>>,
}

impl TcpPeer {
    pub fn from_stream(stream: &TcpStream) -> std::io::Result<Self> {
        let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
        Ok(Self { local, remote, caller: Arc::default() })
    }

    /// Returns an already identified peer.
    pub fn identified(local: SocketAddr, caller: LocalCaller) -> Self {
        Self { local, remote: local, caller: Arc::new(OnceCell::new_with(Some(caller))) }
    }

    /// Identifies the process, once per connection.
    pub async fn caller(&self) -> LocalCaller {
        let (local, remote) = (self.local, self.remote);
        let identify = || async move {
            let found = tokio::task::spawn_blocking(move || identify(local, remote)).await;
            found.unwrap_or(LocalCaller::Unidentified)
        };
        self.caller.get_or_init(identify).await.clone()
    }
}

fn identify(local: SocketAddr, remote: SocketAddr) -> LocalCaller {
    let (ours, theirs) = (local.ip().to_canonical(), remote.ip().to_canonical());
    // A connection from this machine to itself has a loopback address, or the same address on both
    // ends.
    if !theirs.is_loopback() && ours != theirs {
        return LocalCaller::Remote;
    }
    system::caller_of_socket(remote, local)
}

#[cfg(target_os = "linux")]
mod system {
    //! Linux: `/proc/net/tcp` names the socket's inode, and `/proc/PID/fd` the process that holds
    //! it.

    use std::{fs, net::SocketAddr, os::unix::fs::MetadataExt as _};

    use super::LocalCaller;
    use crate::socket::{ancestry, tcp_table};

    /// Identifies the process that holds the socket with these addresses.
    pub(super) fn caller_of_socket(own: SocketAddr, other: SocketAddr) -> LocalCaller {
        let socket = match tcp_table::find_socket(own, other) {
            Ok(Some(socket)) => socket,
            Ok(None) => return LocalCaller::Unidentified,
            // This system does not show its sockets, so the caller counts as remote: its token is
            // accepted, but not for decisions.
            Err(_not_shown) => return LocalCaller::Remote,
        };
        let user = rustix::process::geteuid().as_raw();
        // A socket without an inode is closed: its process is not waiting for an answer.
        if socket.inode == 0 {
            return LocalCaller::Unidentified;
        }
        if socket.uid != user {
            return LocalCaller::Remote;
        }
        let mut callers = holders(socket.inode, user).map(ancestry::caller_of);
        // The owner's process counts only if no agent's process also holds the socket.
        let first = callers.next().unwrap_or(LocalCaller::Unidentified);
        callers.fold(first, |found, caller| match found {
            LocalCaller::Owner => caller,
            agent => agent,
        })
    }

    /// Returns the processes of a user that hold a socket.
    fn holders(inode: u64, user: u32) -> impl Iterator<Item = u32> {
        let wanted = format!("socket:[{inode}]");
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(move |entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            if entry.metadata().ok()?.uid() != user {
                return None;
            }
            let open = fs::read_dir(entry.path().join("fd")).ok()?;
            let holds = open.flatten().any(|file| {
                fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == &*wanted)
            });
            holds.then_some(pid)
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! Other systems do not show which process holds a socket.

    use std::net::SocketAddr;

    use super::LocalCaller;

    pub(super) fn caller_of_socket(_own: SocketAddr, _other: SocketAddr) -> LocalCaller {
        LocalCaller::Remote
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn another_machine_is_known_by_its_address() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(identify(at("10.0.0.1:80"), at("10.0.0.2:5000")), LocalCaller::Remote);
        assert_eq!(identify(at("[::1]:80"), at("[fe80::1]:5000")), LocalCaller::Remote);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_process_of_this_machine_is_found_by_its_socket() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let target = if address.starts_with("127") || address.starts_with("[::]") {
                format!("127.0.0.1:{port}")
            } else {
                format!("[::1]:{port}")
            };
            let client = TcpStream::connect(&target).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let peer = TcpPeer::from_stream(&server).unwrap();
            assert_eq!(peer.caller().await, LocalCaller::this_process(None), "{address}");
            drop(client);
            // A client that has gone cannot be identified.
            let late = TcpPeer::from_stream(&server).unwrap();
            assert_eq!(late.caller().await, LocalCaller::Unidentified, "{address}");
        }
    }
}
