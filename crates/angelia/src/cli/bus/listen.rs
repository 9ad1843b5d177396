//! `angelia bus listen ENDPOINT`: receives messages under a name until it is interrupted. The rules
//! run here, once, because the endpoint lives here; messages for an agent are printed. A message is
//! acknowledged after it has been printed or acted on, so that the bus redelivers a message that
//! was lost on the way.

use std::{io, sync::Arc, time::Duration};

use angelia_core::{
    model::{
        EndpointName,
        bus::{Destination, Message},
    },
    task::Tasks,
};
use angelia_frontends::{
    bus::request::{Fields, Kind, text},
    bus_rules::Reactor,
};
use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use tokio::time::{Instant, sleep, timeout};

use super::ListenArgs;
use crate::{
    assemble::{App, commands_only},
    bus::{line::Line, open},
    cli::{
        error::{CommandError, Exit},
        notify, print,
    },
    daemon::Signals,
    hosting::{Terminal, reactor},
};

/// The bus forgets endpoints that are silent for longer than this.
const PING: Duration = Duration::from_secs(30);

/// The delay before reconnecting to a bus that is gone.
const AGAIN: Duration = Duration::from_millis(500);

/// How long to read what a broken connection still has buffered.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why receiving stopped.
enum End {
    /// The connection broke; another one may work.
    Lost(io::Error),
    /// stdout is closed.
    Unread,
    Over(CommandError),
}

/// Handles received messages.
struct Shown {
    screen: Arc<Terminal>,
    /// `None`: messages are printed as they are, and no rules run.
    reactor: Option<Reactor>,
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
        let screen = Arc::clone(&screen) as _;
        Some(reactor(&app.environment, home, commands, screen, &tasks))
    };
    let shown = Shown { screen, reactor };
    let listening = listen(app, register, &shown);
    let ended = tokio::select! {
        ended = listening => ended,
        () = signals.wait_for_the_end() => Ok(Exit::Interrupted),
    };
    tasks.shutdown(Duration::from_secs(5)).await;
    ended
}

async fn listen(app: &App, mut register: Value, shown: &Shown) -> Result<Exit, CommandError> {
    let socket = open::socket(app)?;
    // Like `notify`, `listen` starts a bus that is not running.
    if Line::connect(&socket).await.is_err() {
        notify::start_bus(&app.environment).await?;
    }
    let mut since = Since::Never;
    loop {
        let ended = match Line::connect(&socket).await {
            Ok(line) => receive(line, &mut register, &mut since, shown).await,
            Err(error) => End::Lost(error),
        };
        match ended {
            End::Over(error) => return Err(error),
            End::Unread => return Ok(Exit::Done),
            End::Lost(error) if since == Since::Never => {
                let what = format!("the bus cannot be reached at {}: {error}", socket.display());
                return Err(CommandError::new(Exit::Unavailable, what)
                    .with_hint("start it with `angelia bus start`"));
            }
            End::Lost(_) => {
                if since == Since::Listening {
                    print::note("the bus has gone; waiting for it to come back");
                }
                since = Since::Gone;
                sleep(AGAIN).await;
            }
        }
    }
}

/// The state of the connection to the bus, as last reported to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Never,
    Listening,
    Gone,
}

async fn receive(mut line: Line, register: &mut Value, since: &mut Since, shown: &Shown) -> End {
    match registered(&mut line, register).await {
        Ok(name) => {
            print::note(&format!("listening as {name}"));
            // Reconnect under the same name, even if it has a suffix.
            register["endpoint"] = json!(name);
            register["prefix"] = json!(false);
            *since = Since::Listening;
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
                return last_words(&mut line, error).await;
            }
        }
        let Some(heard) = heard else { continue };
        match handle(&mut line, &heard, shown).await {
            Ok(()) => {}
            Err(End::Lost(error)) => return last_words(&mut line, error).await,
            Err(end) => return end,
        }
    }
}

/// Reads what is left on a connection that can no longer be written to. The bus may have sent
/// `displaced`: two listeners that reconnected after being displaced would displace each other for
/// ever.
async fn last_words(line: &mut Line, error: io::Error) -> End {
    while let Ok(Ok(heard)) = timeout(LAST_WORDS, line.hear()).await {
        if is_displaced(&heard) {
            return displaced();
        }
    }
    End::Lost(error)
}

fn is_displaced(frame: &[u8]) -> bool {
    let frame = std::str::from_utf8(frame).unwrap_or_default();
    let kind = Fields::read(frame).ok().and_then(|fields| fields.kind);
    kind.is_some_and(|kind| kind.get() == r#""displaced""#)
}

fn displaced() -> End {
    let what = "another listener has taken over the name";
    let hint = "--suffix takes another name instead";
    End::Over(CommandError::new(Exit::Failed, what).with_hint(hint))
}

async fn registered(line: &mut Line, register: &Value) -> Result<String, End> {
    let answer = line.ask(register, Duration::from_secs(10)).await?;
    if answer["type"] == "registered" {
        return Ok(answer["endpoint"].as_str().unwrap_or_default().to_owned());
    }
    let why = answer["detail"].as_str().unwrap_or("it gave no reason");
    let what = format!("the bus refused the name: {why}");
    Err(End::Over(CommandError::new(Exit::Failed, what)))
}

async fn handle(line: &mut Line, heard: &Bytes, shown: &Shown) -> Result<(), End> {
    // The body is not parsed: a message with an unreadable body is a message all the same.
    let frame = std::str::from_utf8(heard).unwrap_or_default();
    let Ok(fields) = Fields::read(frame) else {
        return Ok(());
    };
    match fields.kind() {
        Kind::Message => {}
        _ if fields.kind.is_some_and(|kind| kind.get() == r#""displaced""#) => {
            let what = "another listener has taken over the name";
            let hint = "--suffix takes another name instead";
            return Err(End::Over(CommandError::new(Exit::Failed, what).with_hint(hint)));
        }
        _ => return Ok(()),
    }
    match &shown.reactor {
        // One line per message: outside of strings, `\n` and `\r` are the only line breaks that
        // JSON allows.
        None => shown.screen.put(&frame.replace(['\n', '\r'], " ")),
        Some(reactor) => {
            let left = reactor.react(&message(&fields, heard)).await;
            let words = left.context.map(|(words, _)| words);
            if let Some(words) = words.or(left.channel.map(|(_, words)| words)) {
                reactor.screen.show(&words);
            }
        }
    }
    if shown.screen.is_closed() {
        return Err(End::Unread);
    }
    line.say(&json!({"type": "ack", "id": fields.id})).await?;
    Ok(())
}

fn message(fields: &Fields<'_>, envelope: &Bytes) -> Message {
    let field = |value: Option<&'_ RawValue>| {
        let text = value.and_then(|value| text(value).ok()?);
        text.map(std::borrow::Cow::into_owned)
    };
    let to = field(fields.to).and_then(|to| EndpointName::new(&to).ok());
    Message {
        id: field(fields.id).unwrap_or_default().into(),
        from: field(fields.from).map(Into::into),
        verified: fields.verified.is_none_or(|value| value.get() == "true"),
        to: to.map_or(Destination::Everyone, Destination::Endpoint),
        envelope: envelope.clone(),
    }
}
