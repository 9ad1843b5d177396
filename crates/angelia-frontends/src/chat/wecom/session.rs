//! A bot's socket. One task reads and writes it; each of our frames waits for its answer.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    ports::{Clock, ConnectionError, ConnectionErrorKind, SendError, SendErrorKind},
    task::TaskGroup,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_util::sync::CancellationToken;

use super::frame::{BotFrame, PING, SERVER, SUBSCRIBE, write_frame};
use crate::chat::web_socket::{SocketMessage, WebSocket};

const PING_INTERVAL: Duration = Duration::from_secs(30);

/// A socket that leaves two pings unanswered is dead.
const MAX_SILENCE: Duration = Duration::from_secs(75);

/// The time limit for answering a frame.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for accepting our subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(20);

/// The limit on callbacks that wait to be stored.
const MAX_WAITING: usize = 1024;

const NORMAL_CLOSURE: u16 = 1000;

/// An open connection.
pub(super) struct BotSession {
    outgoing: mpsc::Sender<String>,
    answers: Arc<Mutex<Answers>>,
    /// Messages that the server sends unprompted, for the receiver of events.
    pub(super) signals: AsyncMutex<mpsc::Receiver<Signal>>,
    ended: CancellationToken,
    clock: Arc<dyn Clock>,
}

/// A message that the server sends unprompted.
#[derive(Debug)]
pub(super) enum Signal {
    Callback(BotFrame),
    Alive,
}

#[derive(Default)]
struct Answers {
    /// The pending requests by `req_id`, in the order of their frames.
    waiting: HashMap<String, VecDeque<(u64, oneshot::Sender<BotFrame>)>>,
    next_ticket: u64,
    end: Option<ConnectionError>,
}

impl BotSession {
    /// Connects and authenticates.
    pub(super) async fn open(
        address: &str,
        bot_id: &str,
        secret: &str,
        clock: Arc<dyn Clock>,
        tasks: &TaskGroup,
    ) -> Result<Arc<Self>, ConnectionError> {
        let mut socket = WebSocket::connect(SERVER, address).await?;
        let req_id = format!("{SUBSCRIBE}_{}", clock.fresh_uuid().simple());
        let body = json!({"bot_id": bot_id, "secret": secret});
        socket.send_text(write_frame(SUBSCRIBE, &req_id, &body)).await?;
        let answer = timeout(SUBSCRIBE_TIMEOUT, wait_for_answer(&mut socket, &req_id)).await;
        let answer = answer.map_err(|_elapsed| {
            let message = format!("{SERVER} did not answer in time");
            ConnectionError::new(ConnectionErrorKind::Lost, message)
        })??;
        answer.check().map_err(|error| {
            let (kind, hint) = match error.kind {
                SendErrorKind::Refused => (
                    ConnectionErrorKind::Refused,
                    "; check the bot's id and the secret of its long connection",
                ),
                SendErrorKind::NotSent | SendErrorKind::Unknown => (ConnectionErrorKind::Lost, ""),
            };
            ConnectionError::new(kind, format!("{}{hint}", error.message))
        })?;
        let (outgoing, frames) = mpsc::channel(64);
        let (sender, signals) = mpsc::channel(MAX_WAITING);
        let answers = Arc::new(Mutex::new(Answers::default()));
        let ended = CancellationToken::new();
        let running = RunningSocket {
            socket,
            frames,
            signals: sender,
            answers: Arc::clone(&answers),
            clock: Arc::clone(&clock),
        };
        let (stop, over) = (tasks.stop_token().clone(), ended.clone());
        tasks.spawn(async move {
            running.run(&stop).await;
            over.cancel();
        });
        Ok(Arc::new(Self { outgoing, answers, signals: AsyncMutex::new(signals), ended, clock }))
    }

    pub(super) fn is_open(&self) -> bool {
        !self.ended.is_cancelled()
    }

    /// Returns why the connection ended.
    pub(super) fn end(&self) -> ConnectionError {
        let end = self.answers.lock().end.clone();
        end.unwrap_or_else(|| {
            ConnectionError::new(ConnectionErrorKind::Lost, "the connection was closed")
        })
    }

    /// Sends a frame with a new id, and returns the answer.
    pub(super) async fn request(&self, cmd: &str, body: &Value) -> Result<BotFrame, SendError> {
        let req_id = format!("{cmd}_{}", self.clock.fresh_uuid().simple());
        self.request_under(&req_id, cmd, body).await
    }

    /// Sends a frame with the id of the callback that it answers.
    pub(super) async fn request_under(
        &self,
        req_id: &str,
        cmd: &str,
        body: &Value,
    ) -> Result<BotFrame, SendError> {
        let (answer, waiting) = oneshot::channel();
        let ticket = self.answers.lock().wait(req_id, answer);
        let sent = self.outgoing.send(write_frame(cmd, req_id, body)).await;
        if sent.is_err() {
            self.answers.lock().forget(req_id, ticket);
            let message = self.end().message;
            return Err(SendError::new(SendErrorKind::NotSent, message));
        }
        match timeout(ANSWER_TIMEOUT, waiting).await {
            Ok(Ok(frame)) => frame.check(),
            Ok(Err(_lost)) => {
                let message = format!("the connection was lost before an answer: {}", self.end());
                Err(SendError::new(SendErrorKind::Unknown, message))
            }
            Err(_elapsed) => {
                self.answers.lock().forget(req_id, ticket);
                let message = format!("{SERVER} did not answer in time");
                Err(SendError::new(SendErrorKind::Unknown, message))
            }
        }
    }
}

/// Reads the answer to the first frame. Nothing else arrives before it.
async fn wait_for_answer(
    socket: &mut WebSocket,
    req_id: &str,
) -> Result<BotFrame, ConnectionError> {
    loop {
        let SocketMessage::Text(text) = socket.next(SUBSCRIBE_TIMEOUT).await? else { continue };
        if let Some(frame) = BotFrame::parse(&text).filter(|one| one.headers.req_id == req_id) {
            return Ok(frame);
        }
    }
}

impl Answers {
    /// Registers a pending request, and returns its ticket.
    fn wait(&mut self, req_id: &str, answer: oneshot::Sender<BotFrame>) -> u64 {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.waiting.entry(req_id.to_owned()).or_default().push_back((ticket, answer));
        ticket
    }

    fn forget(&mut self, req_id: &str, ticket: u64) {
        if let Some(waiting) = self.waiting.get_mut(req_id) {
            waiting.retain(|(known, _)| *known != ticket);
            if waiting.is_empty() {
                self.waiting.remove(req_id);
            }
        }
    }

    /// Records the end of the connection, and fails the pending requests.
    fn finish(&mut self, end: Option<ConnectionError>) {
        self.end = end;
        self.waiting.clear();
    }

    /// Passes an answer to the first request that waits for it.
    fn give(&mut self, frame: BotFrame) {
        let req_id = frame.headers.req_id.clone();
        let Some(waiting) = self.waiting.get_mut(&req_id) else { return };
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&req_id);
        }
        if let Some((_, answer)) = first {
            // The caller may have given up.
            let _left = answer.send(frame);
        }
    }
}

struct RunningSocket {
    socket: WebSocket,
    frames: mpsc::Receiver<String>,
    signals: mpsc::Sender<Signal>,
    answers: Arc<Mutex<Answers>>,
    clock: Arc<dyn Clock>,
}

impl RunningSocket {
    /// Runs until the connection is lost or no longer needed.
    async fn run(mut self, stop: &CancellationToken) {
        let end = tokio::select! {
            end = self.exchange() => end,
            () = stop.cancelled() => None,
        };
        self.answers.lock().finish(end);
        self.socket.close(NORMAL_CLOSURE).await;
    }

    async fn exchange(&mut self) -> Option<ConnectionError> {
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let outcome = tokio::select! {
                message = self.socket.next(MAX_SILENCE) => message.map(|one| self.handle(one)),
                frame = self.frames.recv() => self.socket.send_text(frame?).await,
                _ = pings.tick() => {
                    let req_id = format!("{PING}_{}", self.clock.fresh_uuid().simple());
                    self.socket.send_text(write_frame(PING, &req_id, &Value::Null)).await
                }
            };
            if let Err(error) = outcome {
                return Some(error.into());
            }
        }
    }

    fn handle(&self, message: SocketMessage) {
        let SocketMessage::Text(text) = message else { return };
        let Some(frame) = BotFrame::parse(&text) else {
            tracing::debug!("a frame of {SERVER} could not be read");
            return;
        };
        if frame.is_answer() {
            self.answers.lock().give(frame);
            // With so many callbacks in the queue, a sign of life is not needed.
            let _full = self.signals.try_send(Signal::Alive);
        } else if self.signals.try_send(Signal::Callback(frame)).is_err() {
            tracing::warn!("{SERVER}: more than {MAX_WAITING} callbacks wait; one was lost");
        }
    }
}

impl fmt::Debug for BotSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BotSession").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}
