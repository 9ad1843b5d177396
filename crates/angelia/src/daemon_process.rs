//! The process that is the daemon of a home, as others see it: by its pid file and by its answer.

use crate::{bus::pid_file, client::DaemonClient, config::Home};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DaemonProcess {
    Absent,
    /// It answers and takes work.
    Serving {
        pid: u32,
    },
    /// It does not answer yet or any more, or takes no new work.
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

/// Returns the address that the daemon has written down, as a URL.
pub(crate) fn address(home: &Home) -> Option<String> {
    let address = std::fs::read_to_string(home.http_addr_file()).ok()?;
    Some(format!("http://{}", address.trim()))
}
