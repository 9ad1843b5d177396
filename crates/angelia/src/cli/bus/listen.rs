//! `angelia bus listen ENDPOINT`: receives under a name until it is interrupted. The rules run
//! here, once, because the endpoint lives here; what is for an agent is shown.

use std::{io, sync::Arc, time::Duration};

use angelia_core::{
    model::{
        EndpointName,
        bus::{Destination, Message},
    },
    task::Tasks,
};
use angelia_frontends::bus_rules::Reactor;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::ListenArgs;
use crate::{
    assemble::{App, commands_only},
    bus::{line::Line, open},
    cli::{
        error::{CommandError, Exit},
        print,
    },
    daemon::Signals,
    hosting::{Terminal, reactor},
};

/// The bus forgets endpoints that are silent for longer.
const PING: Duration = Duration::from_secs(30);

/// Before a bus that has gone is looked for again.
const AGAIN: Duration = Duration::from_millis(500);

/// Why there is nothing more to receive.
enum End {
    /// The connection; another one may do.
    Lost(io::Error),
    Over(CommandError),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

pub(super) async fn run(app: &Arc<App>, args: ListenArgs) -> Result<Exit, CommandError> {
    let signals = Signals::listen().map_err(CommandError::internal)?;
    let name = EndpointName::new(&args.endpoint)
        .map_err(|error| CommandError::new(Exit::Usage, error.to_string()))?;
    let mut register = json!({
        "type": "register", "endpoint": name.as_str(), "ack": true, "prefix": args.suffix,
    });
    if let Some(path) = &args.token_file {
        let token = std::fs::read_to_string(path).map_err(|error| {
            CommandError::new(Exit::Usage, format!("{}: {error}", path.display()))
        })?;
        register["token"] = json!(token.trim());
    }
    let tasks = Tasks::new();
    let screen = Arc::new(Terminal::new(&app.environment));
    let reactor = if args.json {
        None
    } else {
        let commands = commands_only(app, "bus listen")?;
        let home = app.home.dir().to_owned();
        Some(reactor(&app.environment, home, commands, screen, &tasks))
    };
    let listening = listen(app, register, reactor.as_ref());
    let ended = tokio::select! {
        ended = listening => ended,
        () = signals.wait_for_the_end() => Ok(Exit::Interrupted),
    };
    tasks.shutdown(Duration::from_secs(5)).await;
    ended
}

async fn listen(
    app: &App,
    mut register: Value,
    reactor: Option<&Reactor>,
) -> Result<Exit, CommandError> {
    let socket = open::socket(app)?;
    let mut was_there = false;
    loop {
        let ended = match Line::connect(&socket).await {
            Ok(line) => receive(line, &mut register, &mut was_there, reactor).await,
            Err(error) => End::Lost(error),
        };
        match ended {
            End::Over(error) => return Err(error),
            End::Lost(error) if !was_there => {
                let what = format!("the bus cannot be reached at {}: {error}", socket.display());
                return Err(CommandError::new(Exit::Unavailable, what)
                    .with_hint("start it with `angelia bus start`"));
            }
            End::Lost(_) => {
                print::note("the bus has gone; waiting for it to come back");
                while Line::connect(&socket).await.is_err() {
                    sleep(AGAIN).await;
                }
            }
        }
    }
}

async fn receive(
    mut line: Line,
    register: &mut Value,
    was_there: &mut bool,
    reactor: Option<&Reactor>,
) -> End {
    match registered(&mut line, register).await {
        Ok(name) => {
            print::note(&format!("listening as {name}"));
            // The same name the next time, also if it has a suffix.
            register["endpoint"] = json!(name);
            register["prefix"] = json!(false);
            *was_there = true;
        }
        Err(end) => return end,
    }
    let mut last_ping = Instant::now();
    loop {
        let heard = match timeout(PING, line.hear()).await {
            Ok(Ok(heard)) => Some(heard),
            Ok(Err(error)) => return End::Lost(error),
            Err(_quiet) => None,
        };
        if last_ping.elapsed() >= PING {
            last_ping = Instant::now();
            if let Err(error) = line.say(&json!({"type": "ping"})).await {
                return End::Lost(error);
            }
        }
        if let Some(heard) = heard
            && let Err(end) = handle(&mut line, heard, reactor).await
        {
            return end;
        }
    }
}

async fn registered(line: &mut Line, register: &Value) -> Result<String, End> {
    let answer = line.ask(register, Duration::from_secs(10)).await?;
    if answer["type"] == "registered" {
        return Ok(answer["endpoint"].as_str().unwrap_or_default().to_owned());
    }
    let why = answer["detail"].as_str().unwrap_or("it gave no reason");
    let what = format!("the bus does not give us the name: {why}");
    Err(End::Over(CommandError::new(Exit::Failed, what)))
}

async fn handle(line: &mut Line, heard: Bytes, reactor: Option<&Reactor>) -> Result<(), End> {
    let Ok(frame) = serde_json::from_slice::<Value>(&heard) else {
        return Ok(());
    };
    match frame["type"].as_str() {
        Some("message") => {}
        Some("displaced") => {
            let what = "somebody else has taken the name over";
            let hint = "--suffix takes another name instead";
            return Err(End::Over(
                CommandError::new(Exit::Failed, what).with_hint(hint),
            ));
        }
        _ => return Ok(()),
    }
    let id = frame["id"].as_str().unwrap_or_default();
    match reactor {
        None => {
            let shown = print::line(&frame.to_string());
            shown.map_err(End::Over)?;
        }
        Some(reactor) => {
            let left = reactor.react(&message(&frame, heard.clone(), id)).await;
            let words = left.context.map(|(words, _)| words);
            if let Some(words) = words.or(left.channel.map(|(_, words)| words)) {
                reactor.screen.show(&words);
            }
        }
    }
    line.say(&json!({"type": "ack", "id": frame["id"]})).await?;
    Ok(())
}

fn message(frame: &Value, envelope: Bytes, id: &str) -> Message {
    let to = frame["to"]
        .as_str()
        .and_then(|to| EndpointName::new(to).ok());
    Message {
        id: id.into(),
        from: frame["from"].as_str().map(Into::into),
        verified: frame["verified"] != false,
        to: to.map_or(Destination::Everyone, Destination::Endpoint),
        envelope,
    }
}
