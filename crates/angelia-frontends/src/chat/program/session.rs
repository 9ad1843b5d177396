//! One run of a program: our requests and its answers, its events, and its end.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use angelia_core::{
    ports::{Clock, InboundEvent, ProgramOutput, RunningProgram, SendError, SendErrorKind},
    task::TaskGroup,
};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    decode::{ProgramLine, decode_line},
    protocol::{Empty, Failure, FailureWord, ProgramRequest},
};

/// The longest line, in either direction.
pub(super) const MAX_LINE_BYTES: usize = 8 << 20;

/// The time limit for answering a request.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// How many events a program may send before it gets an answer.
const MAX_OPEN_EVENTS: usize = 64;

/// How many unreadable lines are logged as warnings. Further ones are only counted.
const REPORTED_LINES: u32 = 20;

/// A running program. Cheap to clone.
#[derive(Clone)]
pub(super) struct ProgramSession {
    state: Arc<Mutex<SessionState>>,
    /// Cancelled when the program and all its child processes are gone.
    gone: CancellationToken,
    pub(super) started: Instant,
}

struct SessionState {
    name: Arc<str>,
    /// `None` once the program was asked to end.
    input: Option<mpsc::Sender<Vec<u8>>>,
    next_id: u64,
    waiting: HashMap<u64, oneshot::Sender<Result<Box<RawValue>, SendError>>>,
    /// The receiver of events, if there is one.
    signals: Option<mpsc::Sender<ProgramSignal>>,
    /// How the program ended, if it did so on its own.
    end: Option<String>,
}

/// A message from the program that answers no request.
#[derive(Debug)]
pub(super) enum ProgramSignal {
    Event { id: Value, event: Box<InboundEvent>, cursor: Option<Arc<str>> },
    Alive,
    Lost(SendError),
}

#[derive(Serialize)]
struct RequestLine<'a> {
    id: u64,
    #[serde(flatten)]
    request: &'a ProgramRequest<'a>,
}

/// Our answer to an event.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Result(Empty),
    Error(Failure),
}

#[derive(Serialize)]
struct AnswerLine<'a> {
    id: &'a Value,
    #[serde(flatten)]
    answer: Answer,
}

impl ProgramSession {
    /// Starts reading the program's output until its end.
    pub(super) fn begin(
        name: Arc<str>,
        program: RunningProgram,
        clock: Arc<dyn Clock>,
        tasks: &TaskGroup,
    ) -> Self {
        let RunningProgram { input, mut output } = program;
        let state = SessionState {
            name,
            input: Some(input),
            next_id: 1,
            waiting: HashMap::new(),
            signals: None,
            end: None,
        };
        let state = Arc::new(Mutex::new(state));
        let gone = CancellationToken::new();
        let (own, ended) = (Arc::clone(&state), gone.clone());
        tasks.spawn(async move {
            let mut unread_lines = 0;
            while let Some(output) = output.recv().await {
                own.lock().handle(output, clock.as_ref(), &mut unread_lines);
            }
            let mut state = own.lock();
            state.input = None;
            // Fail the pending requests: no answer will come.
            state.waiting.clear();
            state.signals = None;
            drop(state);
            ended.cancel();
        });
        Self { state, gone, started: Instant::now() }
    }

    /// Returns whether requests can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.state.lock().input.is_some()
    }

    /// Asks the program to end. If it does not, it is killed.
    pub(super) fn close(&self) {
        self.state.lock().input = None;
    }

    pub(super) async fn wait_gone(&self) {
        self.gone.cancelled().await;
    }

    /// Returns how the program ended, if it did so on its own.
    pub(super) fn end(&self) -> Option<String> {
        self.state.lock().end.clone()
    }

    /// Returns a receiver for events from now on. It closes when the program ends.
    pub(super) fn receive_signals(&self) -> mpsc::Receiver<ProgramSignal> {
        let (sender, signals) = mpsc::channel(MAX_OPEN_EVENTS);
        let mut state = self.state.lock();
        if state.input.is_some() {
            state.signals = Some(sender);
        }
        signals
    }

    /// Sends a request and returns the answer.
    pub(super) async fn request<T: DeserializeOwned>(
        &self,
        request: &ProgramRequest<'_>,
    ) -> Result<T, SendError> {
        let (answer, waiting) = oneshot::channel();
        let registered = self.state.lock().register(request, answer)?;
        let RegisteredRequest { id, line, input } = registered;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let sent = tokio::time::timeout_at(deadline, input.send(line)).await;
        drop(input);
        if !matches!(sent, Ok(Ok(()))) {
            self.state.lock().waiting.remove(&id);
            return Err(self.not_running());
        }
        let answer = timeout(ANSWER_TIMEOUT, waiting).await;
        let result = match answer {
            Ok(Ok(result)) => result?,
            Ok(Err(_gone)) => {
                let words = self.end().unwrap_or_else(|| "it was stopped".to_owned());
                let message = format!("the program ended before it answered: {words}");
                return Err(SendError::new(SendErrorKind::Unknown, message));
            }
            Err(_elapsed) => {
                self.state.lock().waiting.remove(&id);
                let message = "the program did not answer in time";
                return Err(SendError::new(SendErrorKind::Unknown, message));
            }
        };
        // A null result counts as an empty one.
        let text = if result.get() == "null" { "{}" } else { result.get() };
        serde_json::from_str(text).map_err(|error| {
            let message = format!("the program's answer cannot be read: {error}");
            SendError::new(SendErrorKind::Unknown, message)
        })
    }

    fn not_running(&self) -> SendError {
        let message = match self.end() {
            Some(words) => format!("the program has ended: {words}"),
            None => "the program does not run".to_owned(),
        };
        SendError::new(SendErrorKind::NotSent, message)
    }

    /// Tells the program that its event is stored, or why not.
    pub(super) async fn answer(&self, id: &Value, outcome: Result<(), Failure>) {
        let line = encode_answer(id, outcome);
        let input = self.state.lock().input.clone();
        if let Some(input) = input {
            // An ended program sends the event again later.
            let _ended = input.send(line).await;
        }
    }
}

fn encode_answer(id: &Value, outcome: Result<(), Failure>) -> Vec<u8> {
    let answer = match outcome {
        Ok(()) => Answer::Result(Empty {}),
        Err(failure) => Answer::Error(failure),
    };
    encode(&AnswerLine { id, answer })
}

/// Encodes a line, including the line break.
fn encode(line: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// A request, and where to send it.
struct RegisteredRequest {
    id: u64,
    line: Vec<u8>,
    input: mpsc::Sender<Vec<u8>>,
}

type RequestAnswer = oneshot::Sender<Result<Box<RawValue>, SendError>>;

impl SessionState {
    /// Assigns an id to a request and registers its answer channel.
    fn register(
        &mut self,
        request: &ProgramRequest<'_>,
        answer: RequestAnswer,
    ) -> Result<RegisteredRequest, SendError> {
        let Some(input) = self.input.clone() else {
            let words = self.end.as_deref().unwrap_or("it was stopped");
            let message = format!("the program does not run: {words}");
            return Err(SendError::new(SendErrorKind::NotSent, message));
        };
        let id = self.next_id;
        let line = encode(&RequestLine { id, request });
        if line.len() > MAX_LINE_BYTES {
            let message = "the message is too long for a line";
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        self.next_id += 1;
        self.waiting.insert(id, answer);
        Ok(RegisteredRequest { id, line, input })
    }

    fn handle(&mut self, output: ProgramOutput, clock: &dyn Clock, unread_lines: &mut u32) {
        let line = match output {
            ProgramOutput::Line(line) => decode_line(&line, clock.now()),
            ProgramOutput::TooLong(bytes) => {
                tracing::warn!(
                    "{}: a line of {bytes} bytes is too long and was skipped",
                    self.name
                );
                return;
            }
            ProgramOutput::Ended(words) => {
                self.end = Some(words);
                self.input = None;
                return;
            }
        };
        match line {
            Ok(ProgramLine::Answer { id, result }) => {
                // Nobody waits for a late answer any more.
                if let Some(answer) = self.waiting.remove(&id) {
                    let _left = answer.send(result);
                }
            }
            Ok(ProgramLine::Event { id, event }) => self.handle_event(&id, event),
            Ok(ProgramLine::Alive) => self.signal(ProgramSignal::Alive),
            Ok(ProgramLine::Lost(error)) => self.signal(ProgramSignal::Lost(error)),
            Err(error) => {
                *unread_lines += 1;
                // Do not log the line: its content may be private.
                match *unread_lines {
                    ..=REPORTED_LINES => {
                        tracing::warn!("{}: a line that cannot be read: {error}", self.name);
                    }
                    count => tracing::debug!(count, "{}: lines that cannot be read", self.name),
                }
            }
        }
    }

    fn signal(&self, signal: ProgramSignal) {
        if let Some(signals) = &self.signals {
            // With so many events in the queue, a sign of life is not needed.
            let _full = signals.try_send(signal);
        }
    }

    fn handle_event(
        &self,
        id: &Value,
        event: Result<(Box<InboundEvent>, Option<Arc<str>>), String>,
    ) {
        let (kind, message) = match event {
            Ok((event, cursor)) => {
                let Some(signals) = &self.signals else {
                    let message = "nothing is received before `receive`".to_owned();
                    return self.refuse_event(id, FailureWord::NotSent, message);
                };
                match signals.try_send(ProgramSignal::Event { id: id.clone(), event, cursor }) {
                    Ok(()) => return,
                    Err(_full) => {
                        let message = format!(
                            "more than {MAX_OPEN_EVENTS} events without an answer; send it again"
                        );
                        (FailureWord::NotSent, message)
                    }
                }
            }
            Err(error) => (FailureWord::Refused, error),
        };
        self.refuse_event(id, kind, message);
    }

    fn refuse_event(&self, id: &Value, kind: FailureWord, message: String) {
        tracing::warn!("{}: an event was not accepted: {message}", self.name);
        let Some(input) = &self.input else { return };
        let line = encode_answer(id, Err(Failure { kind, message, retry_after: None }));
        // If the program is not reading, it misses the answer and sends the event again.
        let _full = input.try_send(line);
    }
}

impl fmt::Debug for ProgramSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramSession").field("started", &self.started).finish_non_exhaustive()
    }
}
