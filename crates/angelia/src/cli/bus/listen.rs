//! `angelia bus listen ENDPOINT`: receives messages under a name until interrupted. The rules run
//! here, once, because the endpoint lives here; messages for an agent are printed. A message is
//! acknowledged only after it has been printed or acted on, so that the bus redelivers a message
//! that was lost on the way.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal as _},
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{
        EndpointName,
        bus::{BusMessage, Destination},
    },
    task::TaskGroup,
};
use angelia_frontends::{
    bus::request::{FrameFields, FrameKind, scalar_text},
    bus_rules::RuleRunner,
};
use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use tokio::time::{Instant, sleep, timeout};

use super::ListenArgs;
use crate::{
    assemble::App,
    bus::{client::BusClient, sockets::BusSockets, token_file},
    cli::{
        error::{CommandError, Exit},
        notify, print,
    },
    daemon::ShutdownSignals,
    hosting::{NoticeTarget, TerminalScreen, build_rule_runner},
    standalone_commands::standalone_commands,
};

/// Interval between pings, because the bus removes endpoints that stay silent for too long.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Delay before reconnecting to a bus that has gone away.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// How long to read data that a broken connection still has buffered.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of handled messages to remember: as many as the bus sends before it waits for
/// acknowledgements.
const MAX_HANDLED_IDS: usize = 4096;

/// Why receiving stopped.
enum ListenEnd {
    /// The connection broke; another one may work.
    ConnectionLost(io::Error),
    /// stdout cannot be written.
    OutputLost(io::Error),
    Fatal(CommandError),
}

/// Handles received messages.
struct MessageHandler {
    screen: Arc<TerminalScreen>,
    /// `None` if messages are printed unchanged and no rules run.
    reactor: Option<RuleRunner>,
    handled: HandledIds,
}

/// The ids of the latest handled messages. If the bus ends before it has read an acknowledgement,
/// the message arrives again and must not be handled twice.
#[derive(Default)]
struct HandledIds(VecDeque<String>);

impl HandledIds {
    fn contains(&self, id: &str) -> bool {
        self.0.iter().any(|handled| handled == id)
    }

    fn insert(&mut self, id: &str) {
        if self.0.len() == MAX_HANDLED_IDS {
            self.0.pop_front();
        }
        self.0.push_back(id.to_owned());
    }
}

impl From<io::Error> for ListenEnd {
    fn from(error: io::Error) -> Self {
        Self::ConnectionLost(error)
    }
}

pub(super) async fn run(app: &Arc<App>, args: ListenArgs) -> Result<Exit, CommandError> {
    let mut signals = ShutdownSignals::listen().map_err(CommandError::internal)?;
    let name = EndpointName::new(&args.endpoint)
        .map_err(|error| CommandError::new(Exit::Usage, error.to_string()))?;
    let mut register = json!({
        "type": "register", "endpoint": name.as_str(), "ack": true, "prefix": args.suffix,
    });
    if let Some(path) = &args.token_file {
        register["token"] = json!(token_file::read(path)?);
    }
    let tasks = TaskGroup::new();
    let screen = Arc::new(TerminalScreen::new(&app.environment, NoticeTarget::Stderr));
    let reactor = if args.json {
        None
    } else {
        let commands = standalone_commands(app, "bus listen")?;
        let home = app.home.dir().to_owned();
        let screen = Arc::clone(&screen) as _;
        Some(build_rule_runner(&app.environment, home, commands, screen, &tasks))
    };
    if let Some(reactor) = &reactor {
        // Report a broken file now, and not only when the first message arrives.
        reactor.current_rules();
    }
    let mut shown = MessageHandler { screen, reactor, handled: HandledIds::default() };
    let listening = listen(app, register, &mut shown);
    let ended = tokio::select! {
        ended = listening => ended,
        () = signals.wait() => {
            // The terminal has printed `^C` where the next prompt would begin.
            if io::stderr().is_terminal() {
                print::note("");
            }
            Ok(Exit::Interrupted)
        }
    };
    tasks.shutdown(Duration::from_secs(5)).await;
    ended
}

async fn listen(
    app: &App,
    mut register: Value,
    shown: &mut MessageHandler,
) -> Result<Exit, CommandError> {
    let sockets = BusSockets::of_app(app);
    // Like `notify`, `listen` starts a bus if none is running.
    if sockets.connect().await.is_err() {
        notify::start_bus(&app.environment).await?;
    }
    let mut since = ConnectionState::NeverConnected;
    loop {
        let ended = match sockets.connect().await {
            Ok(line) => receive(line, &mut register, &mut since, shown).await,
            Err(error) => ListenEnd::ConnectionLost(error),
        };
        match ended {
            ListenEnd::Fatal(error) => return Err(error),
            ListenEnd::OutputLost(error) => return print::exit_for_write(Err(error)),
            ListenEnd::ConnectionLost(error) if since == ConnectionState::NeverConnected => {
                return Err(sockets.unreachable_error(Exit::Unavailable, &error));
            }
            ListenEnd::ConnectionLost(_) => {
                if since == ConnectionState::Listening {
                    print::note("the bus has gone; waiting for it to come back");
                }
                since = ConnectionState::Disconnected;
                sleep(RECONNECT_DELAY).await;
            }
        }
    }
}

/// The connection state last reported to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    NeverConnected,
    Listening,
    Disconnected,
}

async fn receive(
    mut line: BusClient,
    register: &mut Value,
    since: &mut ConnectionState,
    shown: &mut MessageHandler,
) -> ListenEnd {
    match register_endpoint(&mut line, register).await {
        Ok(name) => {
            print::note(&format!("listening as {name}"));
            // Reconnect under the same name, even if it has a suffix.
            register["endpoint"] = json!(name);
            register["prefix"] = json!(false);
            *since = ConnectionState::Listening;
        }
        Err(end) => return end,
    }
    let mut last_ping = Instant::now();
    loop {
        let heard = match timeout(PING_INTERVAL, line.receive()).await {
            Ok(Ok(heard)) => Some(heard),
            Ok(Err(error)) => return ListenEnd::ConnectionLost(error),
            Err(_quiet) => None,
        };
        if last_ping.elapsed() >= PING_INTERVAL {
            last_ping = Instant::now();
            if let Err(error) = line.send(&json!({"type": "ping"})).await {
                return drain_connection(&mut line, error).await;
            }
        }
        let Some(heard) = heard else { continue };
        match handle_frame(&mut line, &heard, shown).await {
            Ok(()) => {}
            Err(ListenEnd::ConnectionLost(error)) => {
                return drain_connection(&mut line, error).await;
            }
            Err(end) => return end,
        }
    }
}

/// Reads the remaining data from a connection that can no longer be written to. The bus may have
/// sent `displaced`: two listeners that reconnect after being displaced would keep displacing each
/// other forever.
async fn drain_connection(line: &mut BusClient, error: io::Error) -> ListenEnd {
    while let Ok(Ok(heard)) = timeout(DRAIN_TIMEOUT, line.receive()).await {
        let frame = std::str::from_utf8(&heard).unwrap_or_default();
        if FrameFields::parse(frame).is_ok_and(|fields| is_displaced(&fields)) {
            return displaced_end();
        }
    }
    ListenEnd::ConnectionLost(error)
}

fn is_displaced(fields: &FrameFields<'_>) -> bool {
    fields.kind.is_some_and(|kind| kind.get() == r#""displaced""#)
}

fn displaced_end() -> ListenEnd {
    let what = "another listener has taken over the name";
    let hint = "--suffix takes another name instead";
    ListenEnd::Fatal(CommandError::new(Exit::Failed, what).with_hint(hint))
}

async fn register_endpoint(line: &mut BusClient, register: &Value) -> Result<String, ListenEnd> {
    let answer = line.request(register, Duration::from_secs(10)).await?;
    if answer["type"] == "registered" {
        return Ok(answer["endpoint"].as_str().unwrap_or_default().to_owned());
    }
    let why = answer["detail"].as_str().unwrap_or("it gave no reason");
    let what = format!("the bus refused the name: {why}");
    Err(ListenEnd::Fatal(CommandError::new(Exit::Failed, what)))
}

async fn handle_frame(
    line: &mut BusClient,
    heard: &Bytes,
    shown: &mut MessageHandler,
) -> Result<(), ListenEnd> {
    // The body is not parsed: a message with an unreadable body is still a message.
    let frame = std::str::from_utf8(heard).unwrap_or_default();
    let Ok(fields) = FrameFields::parse(frame) else {
        return Ok(());
    };
    match fields.kind() {
        FrameKind::Message => {}
        _ if is_displaced(&fields) => return Err(displaced_end()),
        _ => return Ok(()),
    }
    let is_repeat = fields.redelivered.is_some_and(|again| again.get() == "true")
        && fields.id.is_some_and(|id| shown.handled.contains(id.get()));
    if is_repeat {
        line.send(&json!({"type": "ack", "id": fields.id})).await?;
        return Ok(());
    }
    match &shown.reactor {
        // Print one line per message: outside of strings, `\n` and `\r` are the only line breaks
        // that JSON allows.
        None => shown.screen.show_message(&frame.replace(['\n', '\r'], " ")),
        Some(reactor) => {
            let left = reactor.apply(&to_message(&fields, heard)).await;
            let words = left.context.map(|(words, _)| words);
            if let Some(words) = words.or(left.channel.map(|(_, words)| words)) {
                reactor.show_with_heading(&left.input, &words);
            }
        }
    }
    if let Some(error) = shown.screen.take_error() {
        return Err(ListenEnd::OutputLost(error));
    }
    if let Some(id) = fields.id {
        shown.handled.insert(id.get());
    }
    line.send(&json!({"type": "ack", "id": fields.id})).await?;
    Ok(())
}

fn to_message(fields: &FrameFields<'_>, envelope: &Bytes) -> BusMessage {
    let field = |value: Option<&'_ RawValue>| {
        let text = value.and_then(|value| scalar_text(value).ok()?);
        text.map(std::borrow::Cow::into_owned)
    };
    let to = field(fields.to).and_then(|to| EndpointName::new(&to).ok());
    BusMessage {
        id: field(fields.id).unwrap_or_default().into(),
        from: field(fields.from).map(Into::into),
        verified: fields.verified.is_none_or(|value| value.get() == "true"),
        to: to.map_or(Destination::Everyone, Destination::Endpoint),
        envelope: envelope.clone(),
    }
}
