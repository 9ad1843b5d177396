//! `angelia bus status`: reports the state of the bus as text and as an exit code.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    assemble::App,
    bus::{
        process::{self, BusProcess},
        sockets::BusSockets,
    },
    cli::{
        error::{CommandError, Exit},
        print,
    },
};

const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_LOG_LINES: usize = 20;

pub(super) async fn run(app: &App, as_json: bool) -> Result<Exit, CommandError> {
    let found = process::find(app).await;
    let sockets = BusSockets::of_app(app);
    let status = match found {
        BusProcess::Ours { .. } => request_status(&sockets).await,
        BusProcess::Absent | BusProcess::Foreign => None,
    };
    let is_up = status.is_some();
    if as_json {
        let mut status = status.unwrap_or_else(|| json!({"type": "status"}));
        status["running"] = json!(is_up);
        status["socket"] = json!(sockets.own.display().to_string());
        status["hermes_socket"] = json!(sockets.hermes.map(|socket| socket.display().to_string()));
        print::line(&status.to_string())?;
    } else {
        let mut text = String::new();
        describe(&mut text, app, found, &sockets, status.as_ref());
        print::bytes(text.as_bytes())?;
    }
    Ok(if is_up { Exit::Done } else { Exit::Failed })
}

async fn request_status(sockets: &BusSockets) -> Option<Value> {
    let mut line = sockets.connect().await.ok()?;
    let answer = line.request(&json!({"type": "status"}), REPLY_TIMEOUT).await.ok()?;
    (answer["type"] == "status").then_some(answer)
}

fn describe(
    text: &mut String,
    app: &App,
    found: BusProcess,
    sockets: &BusSockets,
    status: Option<&Value>,
) {
    let mut put = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    match found {
        BusProcess::Absent => {
            put("the bus is not running; start it with `angelia bus start`".to_owned());
        }
        BusProcess::Foreign => {
            let theirs =
                sockets.hermes.as_ref().map_or(sockets.own.display(), |path| path.display());
            put(format!("{theirs} belongs to a daemon that is not ours; ours is not running"));
        }
        BusProcess::Ours { pid, inside_serve } => {
            let place = if inside_serve { ", inside `angelia serve`" } else { "" };
            let how = if status.is_some() { "is running" } else { "runs but does not answer" };
            put(format!("the bus {how} (process {pid}{place})"));
        }
    }
    put(format!("  socket: {}", sockets.own.display()));
    if let Some(hermes) = &sockets.hermes {
        put(format!("  for Hermes: {}", hermes.display()));
    }
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
