//! `angelia bus status`: reports the state of the bus, also as an exit code.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use angelia_frontends::bus::listener;
use serde_json::{Value, json};

use crate::{
    assemble::App,
    bus::{client::BusClient, open, pid_file},
    cli::{
        error::{CommandError, Exit},
        print,
    },
};

const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_LOG_LINES: usize = 20;

/// The process that serves the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BusProcess {
    Absent,
    Ours {
        pid: u32,
        inside_serve: bool,
    },
    /// A process that does not belong to this home answers on the socket.
    Foreign,
}

pub(super) async fn find_process(app: &App) -> Result<BusProcess, CommandError> {
    if let Some(pid) = pid_file::holder(&app.home.bus_pid_file()) {
        return Ok(BusProcess::Ours { pid, inside_serve: false });
    }
    let socket = open::socket_path(app)?;
    let offered = pid_file::holder(&hermes_pid_file(&socket));
    let serving = pid_file::holder(&app.home.pid_file());
    match (offered, serving) {
        (Some(offered), Some(serving)) if offered == serving => {
            Ok(BusProcess::Ours { pid: serving, inside_serve: true })
        }
        _ if socket.exists() && listener::is_listening(&socket).await => {
            // The pid files may have been removed; the lock on the messages still names the
            // process.
            Ok(pid_file::holder(&lock_path(app)).map_or(BusProcess::Foreign, |pid| {
                BusProcess::Ours { pid, inside_serve: serving == Some(pid) }
            }))
        }
        _ => Ok(BusProcess::Absent),
    }
}

/// Returns the path of the lock that the process with this home's messages holds.
fn lock_path(app: &App) -> PathBuf {
    app.home.bus_dir().join("lock")
}

/// Returns the path of the pid file that Hermes' tools read.
fn hermes_pid_file(socket: &Path) -> PathBuf {
    socket.with_file_name("run").join("busd.pid")
}

/// Returns whether this process serves the bus of this home. It does until it has released all of
/// its files: a bus that starts before then would find one of them held.
pub(super) fn is_served_by(app: &App, pid: u32) -> bool {
    held_files(app).any(|path| pid_file::holder(&path) == Some(pid))
}

/// Returns whether the kernel proves that this process serves the bus of this home: it holds a lock
/// on one of its files, or it listens on its socket. A number in a file proves nothing.
pub(super) async fn is_proven_holder(app: &App, pid: u32) -> bool {
    if held_files(app).any(|path| pid_file::is_held_by(&path, pid)) {
        return true;
    }
    let Ok(socket) = open::socket_path(app) else {
        return false;
    };
    let connected = tokio::net::UnixStream::connect(&socket).await;
    let listening = connected.and_then(|stream| stream.peer_cred());
    listening.is_ok_and(|listener| listener.pid() == i32::try_from(pid).ok())
}

/// Returns the files that the bus of this home locks.
fn held_files(app: &App) -> impl Iterator<Item = PathBuf> {
    let hermes = open::socket_path(app).ok().map(|socket| hermes_pid_file(&socket));
    [app.home.bus_pid_file(), lock_path(app)].into_iter().chain(hermes)
}

pub(super) async fn run(app: &App, as_json: bool) -> Result<Exit, CommandError> {
    let found = find_process(app).await?;
    let socket = open::socket_path(app)?;
    let status = match found {
        BusProcess::Ours { .. } => request_status(&socket).await,
        BusProcess::Absent | BusProcess::Foreign => None,
    };
    let is_up = status.is_some();
    if as_json {
        let mut status = status.unwrap_or_else(|| json!({"type": "status"}));
        status["running"] = json!(is_up);
        status["socket"] = json!(socket.display().to_string());
        print::line(&status.to_string())?;
    } else {
        let mut text = String::new();
        describe(&mut text, app, found, &socket.display().to_string(), status.as_ref());
        print::bytes(text.as_bytes())?;
    }
    Ok(if is_up { Exit::Done } else { Exit::Failed })
}

async fn request_status(socket: &std::path::Path) -> Option<Value> {
    let mut line = BusClient::connect(socket).await.ok()?;
    let answer = line.request(&json!({"type": "status"}), REPLY_TIMEOUT).await.ok()?;
    (answer["type"] == "status").then_some(answer)
}

fn describe(text: &mut String, app: &App, found: BusProcess, socket: &str, status: Option<&Value>) {
    let mut put = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    match found {
        BusProcess::Absent => {
            put("the bus is not running; start it with `angelia bus start`".to_owned());
        }
        BusProcess::Foreign => {
            put(format!("{socket} belongs to a daemon that is not ours; ours is not running"));
        }
        BusProcess::Ours { pid, inside_serve } => {
            let place = if inside_serve { ", inside `angelia serve`" } else { "" };
            let how = if status.is_some() { "is running" } else { "runs but does not answer" };
            put(format!("the bus {how} (process {pid}{place})"));
        }
    }
    put(format!("  socket: {socket}"));
    if let Some(status) = status {
        let number = |name: &str| status[name].as_u64().unwrap_or_default();
        put(format!(
            "  messages: {} accepted, {} delivered, {} refused, {} waiting, {} dead",
            number("accepted"),
            number("delivered"),
            number("refused"),
            number("queued"),
            number("dead"),
        ));
        let endpoints = status["endpoints"].as_array().map_or(&[][..], Vec::as_slice);
        put(format!("  endpoints: {}", endpoints.len()));
        for endpoint in endpoints {
            let session = endpoint["session_id"]
                .as_str()
                .map_or_else(|| "away".to_owned(), |session| session.chars().take(8).collect());
            let name = endpoint["endpoint"].as_str().unwrap_or_default();
            let waiting = endpoint["queued"].as_u64().unwrap_or_default();
            put(format!("    {name} ({session}), {waiting} waiting"));
        }
    }
    let log = app.home.bus_log();
    if let Ok(written) = fs::read(&log) {
        let written = String::from_utf8_lossy(&written);
        let lines: Vec<&str> = written.lines().collect();
        put(format!("  log: {}", log.display()));
        for line in &lines[lines.len().saturating_sub(MAX_LOG_LINES)..] {
            put(format!("    {line}"));
        }
    }
}
