//! The adapter of a program channel: passes every request on to the program.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::{
    ports::{
        BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, ChatCommandHint,
        Clock, CommandRunner, ConnectionError, ConnectionErrorKind, EventInbox, InboundFile,
        LengthLimit, LengthUnit, OutgoingFile, OutgoingMessage, ProgramSpec, RichText, SendError,
        SendErrorKind, SendFuture, SentMessage, StreamMeans,
    },
    task::TaskGroup,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::RwLock;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, sleep},
};

use super::{
    message::{place, read_file, write_edit, write_message},
    protocol::{
        Abilities, AnswerPress, Command, Counted, Empty, Failure, FailureWord, FetchFile,
        FileContent, Findings, Initialize, Means, PROTOCOL, ProgramRequest, Receive,
        RegisterCommands, Send, SendFile, Sent, ShowDraft, Unit,
    },
    restarts::Restarts,
    session::{MAX_LINE_BYTES, ProgramSession, ProgramSignal},
};
use crate::chat::formatting::{Escapes, write_markdown};

/// How often a receiving program is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// The shortest time between two updates of an answer.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The longest lifetime of a stream.
const MAX_LIFETIME: Duration = Duration::from_hours(24);

/// The configuration and services of a program channel.
pub struct ProgramChannelParts {
    /// The name of the channel in the configuration.
    pub name: Arc<str>,
    /// The program and its arguments.
    pub command: Vec<Arc<str>>,
    /// The environment variables of the program.
    pub env: Vec<(Arc<str>, Arc<str>)>,
    pub commands: Arc<dyn CommandRunner>,
    pub clock: Arc<dyn Clock>,
    pub tasks: TaskGroup,
}

/// A channel whose adapter is a program.
pub struct ProgramChannel {
    parts: ProgramChannelParts,
    runs: Mutex<ProgramRuns>,
    /// Known once the program has run.
    abilities: RwLock<Option<Abilities>>,
}

#[derive(Default)]
struct ProgramRuns {
    current: Option<ProgramSession>,
    restarts: Restarts,
    last_error: Option<String>,
}

impl ProgramChannel {
    pub fn new(parts: ProgramChannelParts) -> Self {
        Self { parts, runs: Mutex::default(), abilities: RwLock::default() }
    }

    /// Returns the running program, or starts it.
    async fn session(&self) -> Result<ProgramSession, SendError> {
        let mut runs = self.runs.lock().await;
        if let Some(session) = &runs.current {
            if session.is_open() {
                return Ok(session.clone());
            }
            // Two instances at once might disturb each other on the platform.
            session.wait_gone().await;
            let (started, end) = (session.started, session.end());
            runs.current = None;
            if let Some(end) = end {
                runs.restarts.note_end(started, Instant::now());
                runs.last_error = Some(end);
            }
        }
        if let Some(pause) = runs.restarts.pause_left(Instant::now()) {
            let why = runs.last_error.as_deref().unwrap_or("it has ended");
            let message = format!("the program does not run: {why}");
            let error = SendError::new(SendErrorKind::NotSent, message);
            return Err(SendError { retry_after: Some(pause), ..error });
        }
        let started = Instant::now();
        let session = self.start().await.inspect_err(|error| {
            runs.restarts.note_end(started, Instant::now());
            runs.last_error = Some(error.message.clone());
        })?;
        runs.current = Some(session.clone());
        Ok(session)
    }

    async fn start(&self) -> Result<ProgramSession, SendError> {
        let ProgramChannelParts { name, command, env, commands, clock, tasks } = &self.parts;
        let not_sent = |message: String| SendError::new(SendErrorKind::NotSent, message);
        let Some((program, args)) = command.split_first() else {
            return Err(not_sent("the command is empty".to_owned()));
        };
        let running = commands.start(ProgramSpec {
            name: Arc::clone(name),
            program: Arc::clone(program),
            args: args.to_vec(),
            env: env.clone(),
            max_line: MAX_LINE_BYTES,
        });
        let running = running.await.map_err(|error| not_sent(error.to_string()))?;
        let session = ProgramSession::begin(Arc::clone(name), running, Arc::clone(clock), tasks);
        let hello = Initialize { protocol: PROTOCOL, name, version: env!("CARGO_PKG_VERSION") };
        match session.request::<Abilities>(&ProgramRequest::Initialize(hello)).await {
            Ok(abilities) => {
                *self.abilities.write() = Some(abilities);
                Ok(session)
            }
            Err(error) => {
                session.close();
                session.wait_gone().await;
                // Only the abilities were requested, so no message was lost.
                Err(not_sent(error.message))
            }
        }
    }

    async fn ask<T: DeserializeOwned>(&self, request: ProgramRequest<'_>) -> Result<T, SendError> {
        self.session().await?.request(&request).await
    }

    /// Like [`Self::ask`], but ignores the result.
    async fn tell(&self, request: ProgramRequest<'_>) -> Result<(), SendError> {
        self.ask::<IgnoredAny>(request).await.map(drop)
    }

    async fn send_by(&self, request: ProgramRequest<'_>) -> Result<SentMessage, SendError> {
        let sent: Sent = self.ask(request).await?;
        Ok(SentMessage { message_id: sent.message_id.map(Into::into) })
    }

    fn has(&self, ability: impl Fn(&Abilities) -> bool) -> bool {
        self.abilities.read().as_ref().is_some_and(ability)
    }

    async fn run_connection(
        &self,
        session: &ProgramSession,
        cursor: Option<&str>,
        inbox: &dyn EventInbox,
    ) -> ConnectionError {
        let mut signals = session.receive_signals();
        let request = ProgramRequest::Receive(Receive { cursor });
        if let Err(error) = session.request::<IgnoredAny>(&request).await {
            return connection_error(error);
        }
        inbox.note_alive();
        tokio::select! {
            error = store_events(session, &mut signals, inbox) => error,
            error = ask_for_life(session, inbox) => error,
        }
    }
}

/// Stores events, and acknowledges each one once it is stored.
async fn store_events(
    session: &ProgramSession,
    signals: &mut mpsc::Receiver<ProgramSignal>,
    inbox: &dyn EventInbox,
) -> ConnectionError {
    while let Some(signal) = signals.recv().await {
        inbox.note_alive();
        let (id, event, cursor): (Value, _, _) = match signal {
            ProgramSignal::Event { id, event, cursor } => (id, event, cursor),
            ProgramSignal::Alive => continue,
            ProgramSignal::Lost(error) => return connection_error(error),
        };
        if let Err(error) = inbox.accept(vec![*event], cursor).await {
            let message = error.to_string();
            let failure = Failure { kind: FailureWord::NotSent, message, retry_after: None };
            session.answer(&id, Err(failure)).await;
            return ConnectionError::new(ConnectionErrorKind::Lost, error.to_string());
        }
        session.answer(&id, Ok(())).await;
    }
    session.wait_gone().await;
    let words = session.end().unwrap_or_else(|| "it was stopped".to_owned());
    ConnectionError::new(ConnectionErrorKind::Lost, format!("the program ended: {words}"))
}

/// Pings the program. Returns when it does not answer.
async fn ask_for_life(session: &ProgramSession, inbox: &dyn EventInbox) -> ConnectionError {
    loop {
        sleep(PING_INTERVAL).await;
        match session.request::<IgnoredAny>(&ProgramRequest::Ping(Empty {})).await {
            Ok(_) => inbox.note_alive(),
            // The end of the program is reported elsewhere, with its reason.
            Err(_) if !session.is_open() => std::future::pending().await,
            Err(error) => return connection_error(error),
        }
    }
}

fn connection_error(error: SendError) -> ConnectionError {
    let kind = match error.kind {
        SendErrorKind::Refused => ConnectionErrorKind::Refused,
        SendErrorKind::NotSent | SendErrorKind::Unknown => ConnectionErrorKind::Lost,
    };
    ConnectionError { kind, message: error.message, retry_after: error.retry_after }
}

/// Ends a program when nobody receives its events any more. A later receiver starts a new one, which sends
/// unacknowledged events again.
struct EndOnDrop(ProgramSession);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Channel for ProgramChannel {
    fn platform(&self) -> &str {
        &self.parts.name
    }

    fn capabilities(&self) -> ChannelCapabilities {
        let known = self.abilities.read();
        let own = known.clone().unwrap_or_default();
        ChannelCapabilities {
            receive: true,
            edit: own.edit,
            typing: own.typing,
            buttons: own.buttons,
            files: own.files,
            home: true,
            rich_text: true,
            idempotent: own.idempotent,
            max_length: own.max_length.map(|limit| LengthLimit {
                max: limit.max,
                unit: match limit.unit {
                    Unit::CodePoints => LengthUnit::CodePoints,
                    Unit::Utf16 => LengthUnit::Utf16,
                    Unit::Bytes => LengthUnit::Bytes,
                },
            }),
        }
    }

    fn ready(&self) -> SendFuture<'_, ()> {
        Box::pin(async {
            if self.abilities.read().is_some() {
                return Ok(());
            }
            self.session().await.map(drop)
        })
    }

    fn written_length(&self, text: &RichText) -> Option<usize> {
        let limit = self.abilities.read().as_ref().and_then(|own| own.max_length)?;
        let unit = self.capabilities().max_length?.unit;
        (limit.of == Counted::Markdown)
            .then(|| unit.measure(&write_markdown(text, Escapes::Backslashes)))
    }

    fn stream_means(&self, _chat: &str) -> StreamMeans {
        let Some(stream) = self.abilities.read().as_ref().and_then(|own| own.stream) else {
            return StreamMeans::None;
        };
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or(MAX_LIFETIME);
        let interval = seconds(stream.interval).clamp(MIN_INTERVAL, MAX_LIFETIME);
        let lifetime = seconds(stream.lifetime).min(MAX_LIFETIME);
        match stream.means {
            Means::Edit => StreamMeans::Edit { interval },
            Means::Stream => StreamMeans::Stream { interval, lifetime },
            Means::Draft => StreamMeans::Draft { interval, lifetime },
        }
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        let request = Send { place: place(chat), message: write_message(message) };
        Box::pin(self.send_by(ProgramRequest::Send(request)))
    }

    fn edit<'a>(
        &'a self,
        chat: &'a str,
        sent: &'a SentMessage,
        new: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(async move { self.tell(ProgramRequest::Edit(write_edit(chat, sent, new)?)).await })
    }

    fn begin_stream<'a>(
        &'a self,
        chat: &'a str,
        first: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        if self.has(|own| own.stream.is_some_and(|stream| stream.means == Means::Edit)) {
            return self.send(chat, first);
        }
        let request = Send { place: place(chat), message: write_message(first) };
        Box::pin(self.send_by(ProgramRequest::BeginStream(request)))
    }

    fn update_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        so_far: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        if !self.has(|own| own.stream.is_some_and(|stream| stream.means == Means::Stream)) {
            return self.edit(chat, begun, so_far);
        }
        Box::pin(async move {
            self.tell(ProgramRequest::UpdateStream(write_edit(chat, begun, so_far)?)).await
        })
    }

    fn end_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        last: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        if !self.has(|own| own.stream.is_some_and(|stream| stream.means == Means::Stream)) {
            return self.edit(chat, begun, last);
        }
        Box::pin(async move {
            self.tell(ProgramRequest::EndStream(write_edit(chat, begun, last)?)).await
        })
    }

    fn show_draft<'a>(
        &'a self,
        chat: &'a str,
        draft: u64,
        text: &'a RichText,
    ) -> SendFuture<'a, ()> {
        let request = ShowDraft {
            place: place(chat),
            draft: draft.to_string(),
            markdown: write_markdown(text, Escapes::Backslashes),
            text: text.visible_text(),
        };
        Box::pin(self.tell(ProgramRequest::ShowDraft(request)))
    }

    fn typing<'a>(&'a self, chat: &'a str) -> SendFuture<'a, ()> {
        Box::pin(self.tell(ProgramRequest::Typing(place(chat))))
    }

    fn send_file<'a>(
        &'a self,
        chat: &'a str,
        file: &'a OutgoingFile,
    ) -> SendFuture<'a, SentMessage> {
        let path = file.path.to_string_lossy();
        let request = SendFile { place: place(chat), id: &file.id, path, name: &file.name };
        Box::pin(self.send_by(ProgramRequest::SendFile(request)))
    }

    fn fetch_file<'a>(&'a self, file: &'a InboundFile, limit: u64) -> SendFuture<'a, Vec<u8>> {
        Box::pin(async move {
            let request = ProgramRequest::FetchFile(FetchFile { file_id: &file.id, limit });
            let content: FileContent = self.ask(request).await?;
            let failed = |message: String| SendError::new(SendErrorKind::NotSent, message);
            let bytes = match (&content.path, &content.data) {
                (Some(path), _) => {
                    let read = read_file(path, limit).await;
                    read.map_err(|error| failed(format!("cannot read the file: {error}")))?
                }
                (None, Some(data)) => STANDARD
                    .decode(data.as_bytes())
                    .map_err(|error| failed(format!("the file is not Base64: {error}")))?,
                (None, None) => return Err(failed("the program gave no file".to_owned())),
            };
            if bytes.len() as u64 > limit {
                let message = format!("the file has more than {limit} bytes");
                return Err(SendError::new(SendErrorKind::Refused, message));
            }
            Ok(bytes)
        })
    }

    fn answer_press<'a>(&'a self, press: &'a ButtonPress, text: &'a str) -> SendFuture<'a, ()> {
        let request = AnswerPress { press_id: &press.id, text };
        Box::pin(self.tell(ProgramRequest::AnswerPress(request)))
    }

    fn receive<'a>(
        &'a self,
        cursor: Option<Arc<str>>,
        inbox: &'a dyn EventInbox,
    ) -> BoxFuture<'a, ConnectionError> {
        Box::pin(async move {
            let session = match self.session().await {
                Ok(session) => EndOnDrop(session),
                Err(error) => return connection_error(error),
            };
            self.run_connection(&session.0, cursor.as_deref(), inbox).await
        })
    }

    fn register_commands<'a>(&'a self, commands: &'a [ChatCommandHint]) -> SendFuture<'a, ()> {
        Box::pin(async move {
            self.ready().await?;
            if !self.has(|own| own.commands) {
                return Ok(());
            }
            let commands =
                commands.iter().map(|hint| Command { name: hint.name, about: hint.about });
            let commands = RegisterCommands { commands: commands.collect() };
            self.tell(ProgramRequest::RegisterCommands(commands)).await
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(async move {
            let session = self.session().await.map_err(connection_error)?;
            let guard = EndOnDrop(session.clone());
            let found: Result<Findings, _> =
                session.request(&ProgramRequest::Check(Empty {})).await;
            drop(guard);
            session.wait_gone().await;
            let mut findings = vec![ChannelFinding {
                is_problem: false,
                text: "the program runs and speaks the protocol".to_owned(),
            }];
            let told = found.map_err(connection_error)?.findings.into_iter();
            findings
                .extend(told.map(|one| ChannelFinding { is_problem: one.problem, text: one.text }));
            Ok(findings)
        })
    }
}

/// Omits the environment variables and arguments, which may contain secrets.
impl fmt::Debug for ProgramChannelParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramChannelParts").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for ProgramChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgramChannel").field(&self.parts.name).finish()
    }
}
