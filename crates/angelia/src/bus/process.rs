//! Finds, identifies and ends the process that serves the bus of this home.

use std::{fs, path::PathBuf, time::Duration};

use angelia_frontends::bus::listener;
use rustix::process::Signal;
use tokio::net::UnixStream;

use super::{hermes_socket, pid_file, sockets::BusSockets};
use crate::{
    assemble::App,
    background::ProvenProcess,
    cli::error::{CommandError, Exit},
};

/// How long a bus may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// The process that serves the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BusProcess {
    Absent,
    Ours {
        pid: u32,
        inside_serve: bool,
    },
    /// A process that does not belong to this home answers on Hermes' socket.
    Foreign,
}

pub(crate) async fn find(app: &App) -> BusProcess {
    let serving = pid_file::holder(&app.home.pid_file());
    // The pid file may have been removed; the lock on the messages still identifies the process.
    let holders = [app.home.bus_pid_file(), lock_path(app)];
    if let Some(pid) = holders.iter().find_map(|path| pid_file::holder(path)) {
        return BusProcess::Ours { pid, inside_serve: serving == Some(pid) };
    }
    match BusSockets::of_app(app).hermes {
        Some(hermes) if hermes.exists() && listener::is_listening(&hermes).await => {
            BusProcess::Foreign
        }
        _ => BusProcess::Absent,
    }
}

/// Returns the path of the lock held by the process that serves this home's messages.
fn lock_path(app: &App) -> PathBuf {
    app.home.bus_dir().join("lock")
}

/// Returns the files that the bus of this home locks.
fn held_files(app: &App) -> impl Iterator<Item = PathBuf> {
    let hermes = BusSockets::of_app(app).hermes;
    let hermes = hermes.map(|socket| hermes_socket::pid_file_path(&socket));
    [app.home.bus_pid_file(), lock_path(app)].into_iter().chain(hermes)
}

/// Returns whether this process serves the bus of this home. It counts as serving until it has
/// released all of its files, because a bus that starts earlier would find one of them held.
fn is_served_by(app: &App, pid: u32) -> bool {
    held_files(app).any(|path| pid_file::holder(&path) == Some(pid))
}

/// Asks the kernel whether this process holds a lock on a file of the bus, or listens on one of its
/// sockets. A number in a file proves nothing. Returns `None` if the process is gone or serves no
/// bus.
pub(crate) async fn prove(app: &App, pid: u32) -> Result<Option<ProvenProcess>, CommandError> {
    let is_running = || is_served_by(app, pid);
    let proven = ProvenProcess::prove(pid, is_running, || is_proven_holder(app, pid)).await;
    match proven {
        Ok(proven) => Ok(proven.filter(|_| is_running())),
        Err(_not_proven) => {
            let what = format!("process {pid} is not proven to be the bus; it gets no signal");
            Err(CommandError::new(Exit::Failed, what)
                .with_hint("`angelia bus status` shows what is known; stop it yourself"))
        }
    }
}

/// Ends a bus with SIGTERM, then with SIGKILL.
pub(crate) async fn end(app: &App, bus: ProvenProcess) -> Result<(), CommandError> {
    let pid = bus.pid;
    let signals = [Signal::TERM, Signal::KILL].map(|signal| (signal, STOP_TIMEOUT));
    bus.end(&signals, || is_served_by(app, pid)).await.map_err(|_still_running| {
        CommandError::new(Exit::Failed, format!("the bus (process {pid}) did not stop"))
    })
}

async fn is_proven_holder(app: &App, pid: u32) -> bool {
    if held_files(app).any(|path| pid_file::is_held_by(&path, pid)) {
        return true;
    }
    let sockets = BusSockets::of_app(app);
    for socket in std::iter::once(&sockets.own).chain(&sockets.hermes) {
        if listens_on(pid, socket).await {
            return true;
        }
    }
    false
}

/// Returns whether the kernel reports that this process listens on a socket.
pub(crate) async fn listens_on(pid: u32, socket: &std::path::Path) -> bool {
    let connected = UnixStream::connect(socket).await;
    let listening = connected.and_then(|stream| stream.peer_cred());
    listening.is_ok_and(|listener| listener.pid() == i32::try_from(pid).ok())
}

/// Removes the files that a killed bus left behind.
pub(crate) async fn remove_stale_files(app: &App) {
    let sockets = BusSockets::of_app(app);
    for socket in std::iter::once(&sockets.own).chain(&sockets.hermes) {
        if !listener::is_listening(socket).await {
            let _gone = fs::remove_file(socket);
        }
    }
    if pid_file::holder(&app.home.bus_pid_file()).is_none() {
        let _gone = fs::remove_file(app.home.bus_pid_file());
    }
}
