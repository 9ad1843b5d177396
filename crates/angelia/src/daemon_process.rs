//! Finds the daemon process of a home, by its pid file and by its answer.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{bus::pid_file, client::DaemonClient, config::Home};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DaemonProcess {
    Absent,
    /// The daemon answers and accepts work.
    Serving {
        pid: u32,
    },
    /// The daemon does not answer (yet or any more), or accepts no new work.
    Changing {
        pid: u32,
    },
}

impl DaemonProcess {
    pub(crate) async fn find(home: &Home) -> Self {
        let Some(pid) = pid_file::holder(&home.pid_file()) else {
            return Self::Absent;
        };
        let Some(daemon) = DaemonClient::connect(&home.socket()).await else {
            return Self::Changing { pid };
        };
        match daemon.hello().await {
            Ok(hello) if !hello.is_draining() => Self::Serving { pid },
            _ => Self::Changing { pid },
        }
    }
}

/// Returns the address that the daemon wrote to its file, as a URL.
pub(crate) fn address(home: &Home) -> Option<String> {
    let address = std::fs::read_to_string(home.http_addr_file()).ok()?;
    Some(format!("http://{}", address.trim()))
}

/// The address of a home's model APIs for programs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddress {
    pub(crate) address: SocketAddr,
    /// Whether the daemon is running. Otherwise this is the address on which it would listen.
    pub(crate) is_running: bool,
}

impl ClientAddress {
    /// Returns the address of the running daemon, or else the configured one. Returns `None` if the
    /// daemon will choose a port when it starts.
    pub(crate) fn find(home: &Home, listen: SocketAddr) -> Option<Self> {
        let running = pid_file::holder(&home.pid_file())
            .and_then(|_| std::fs::read_to_string(home.http_addr_file()).ok())
            .and_then(|address| address.trim().parse().ok());
        let address = for_clients(running.unwrap_or(listen));
        (address.port() != 0).then_some(Self { address, is_running: running.is_some() })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Returns an address that a client can connect to. A daemon that listens on all addresses also
/// listens on loopback.
fn for_clients(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[test]
fn clients_connect_to_loopback_where_the_daemon_listens_everywhere() {
    let shown = |text: &str| for_clients(text.parse().unwrap()).to_string();
    assert_eq!(shown("0.0.0.0:4376"), "127.0.0.1:4376");
    assert_eq!(shown("[::]:4376"), "[::1]:4376");
    assert_eq!(shown("192.0.2.7:80"), "192.0.2.7:80");
}
