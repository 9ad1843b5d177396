//! `angelia bus status`: reports the state of the bus, also as an exit code.

use std::{fs, path::PathBuf, time::Duration};

use angelia_frontends::bus::listener;
use serde_json::{Value, json};

use crate::{
    assemble::App,
    bus::{line::Line, open, pid_file},
    cli::{
        error::{CommandError, Exit},
        print,
    },
};

const PATIENCE: Duration = Duration::from_secs(5);
const LOG_LINES: usize = 20;

/// The process that serves the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nobody,
    Ours {
        pid: u32,
        inside_serve: bool,
    },
    /// A process that does not belong to this home answers on the socket.
    Stranger,
}

pub(super) async fn find(app: &App) -> Result<Found, CommandError> {
    if let Some(pid) = pid_file::holder(&app.home.bus_pid()) {
        return Ok(Found::Ours { pid, inside_serve: false });
    }
    let socket = open::socket(app)?;
    let offered = pid_file::holder(&socket.with_file_name("run").join("busd.pid"));
    let serving = pid_file::holder(&app.home.pid_file());
    match (offered, serving) {
        (Some(offered), Some(serving)) if offered == serving => {
            Ok(Found::Ours { pid: serving, inside_serve: true })
        }
        _ if socket.exists() && listener::is_answered(&socket).await => {
            // The pid files may have been removed; the lock on the messages still names the
            // process.
            Ok(pid_file::holder(&lock(app)).map_or(Found::Stranger, |pid| Found::Ours {
                pid,
                inside_serve: serving == Some(pid),
            }))
        }
        _ => Ok(Found::Nobody),
    }
}

/// Returns the path of the lock that the process with this home's messages holds.
fn lock(app: &App) -> PathBuf {
    app.home.bus().join("lock")
}

/// Returns whether this process serves the bus of this home.
pub(super) fn is_held_by(app: &App, pid: u32) -> bool {
    let files = [app.home.bus_pid(), lock(app)];
    let mut holders = files.iter().map(|path| pid_file::holder(path));
    holders.any(|holder| holder == Some(pid))
}

pub(super) async fn run(app: &App, as_json: bool) -> Result<Exit, CommandError> {
    let found = find(app).await?;
    let socket = open::socket(app)?;
    let status = match found {
        Found::Ours { .. } => ask(&socket).await,
        Found::Nobody | Found::Stranger => None,
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

async fn ask(socket: &std::path::Path) -> Option<Value> {
    let mut line = Line::connect(socket).await.ok()?;
    let answer = line.ask(&json!({"type": "status"}), PATIENCE).await.ok()?;
    (answer["type"] == "status").then_some(answer)
}

fn describe(text: &mut String, app: &App, found: Found, socket: &str, status: Option<&Value>) {
    let mut put = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    match found {
        Found::Nobody => {
            put("the bus is not running; start it with `angelia bus start`".to_owned());
        }
        Found::Stranger => {
            put(format!("{socket} belongs to a daemon that is not ours; ours is not running"));
        }
        Found::Ours { pid, inside_serve } => {
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
        for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
            put(format!("    {line}"));
        }
    }
}
