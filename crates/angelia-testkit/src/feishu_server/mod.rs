//! A fake of Feishu's open API and its WebSocket on loopback: the transport, and the refusals of the real
//! one. It is verified with the official Python library before our adapter is tested against it.
//!
//! - `api`: the requests; `card`: what people see of a card.
//! - `frames`: the protobuf encoding of the WebSocket.
//! - `people`: what people do.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod card;
mod frames;
mod people;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

pub use self::{card::visible_markdown, frames::WireFrame, people::MessageKind};
use crate::platform_server::{
    ClientSocket, PlatformAnswer, PlatformFake, PlatformRequest, SocketFrame, serve_platform,
};

pub const APP_ID: &str = "cli_a0fake";
pub const APP_SECRET: &str = "secret-of-the-fake-app";
pub const BOT_ID: &str = "ou_bot";
pub const BOT_NAME: &str = "Fake Bot";

/// The service of the connections.
const SERVICE: u64 = 33_554_678;

/// A fake server, which records everything that is sent to it.
#[derive(Clone, Debug)]
pub struct FeishuServer {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<ServerState>,
}

#[derive(Debug)]
struct ServerState {
    address: String,
    sockets: Vec<ClientSocket>,
    tickets: Vec<String>,
    events: Vec<SentEvent>,
    deliveries: usize,
    acks: Vec<Acknowledgement>,
    pings: Vec<Instant>,
    config: Value,
    tokens: usize,
    valid_token: Option<String>,
    token_lifetime: u64,
    calls: Vec<ApiCall>,
    faults: HashMap<String, VecDeque<ApiFault>>,
    text_faults: Vec<(String, ApiFault)>,
    messages: BTreeMap<usize, StoredMessage>,
    said: HashMap<String, Value>,
    by_uuid: HashMap<String, usize>,
    cards: HashMap<String, StoredCard>,
    files: HashMap<String, (String, Vec<u8>)>,
    blocked: Vec<String>,
    scopes: Vec<String>,
    app: Value,
    next_id: usize,
}

/// An event on its way.
#[derive(Clone, Debug)]
struct SentEvent {
    id: String,
    payload: Vec<u8>,
    parts: usize,
    sent_at: Option<Instant>,
    is_acked: bool,
}

/// A frame that the client sent back.
#[derive(Clone, Debug)]
pub struct Acknowledgement {
    pub code: i64,
    /// The answer to a press.
    pub answer: Option<Value>,
    pub frame: WireFrame,
    /// The time since the event was sent.
    pub after: Duration,
}

/// A request.
#[derive(Clone, Debug)]
pub struct ApiCall {
    /// The operation, such as `send`.
    pub name: String,
    pub fields: Value,
    pub at: Instant,
}

/// How the next request of an operation fails.
#[derive(Clone, Debug)]
pub enum ApiFault {
    /// Refuses with this code and message.
    Refuse(i64, String),
    /// Retry after this many seconds.
    TooMany(u64),
    /// The request is processed, but the connection is cut before the answer.
    Cut,
    /// Something that is not JSON.
    Garbage,
}

#[derive(Clone, Debug)]
struct StoredMessage {
    id: String,
    chat: String,
    kind: String,
    content: Value,
    sent_buttons: Vec<(String, Value)>,
    reply_to: Option<String>,
    in_thread: bool,
    edits: usize,
}

#[derive(Clone, Debug)]
struct StoredCard {
    card: Value,
    is_streaming: bool,
    sequence: i64,
    updates: usize,
}

/// A message from the bot in its current form.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenMessage {
    pub id: String,
    pub chat: String,
    /// The text without its formatting.
    pub text: String,
    pub buttons: Vec<(String, Value)>,
    /// The buttons that the message had when it was sent.
    pub sent_buttons: Vec<(String, Value)>,
    pub reply_to: Option<String>,
    pub in_thread: bool,
    /// The name and the content of a file.
    pub file: Option<(String, Vec<u8>)>,
    /// Whether the message is still growing.
    pub is_streaming: bool,
    pub edits: usize,
}

impl FeishuServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared { state: Mutex::new(ServerState::new()) });
        let address = serve_platform(Arc::clone(&shared));
        shared.state.lock().unwrap().address.clone_from(&address);
        Self { address, shared }
    }

    /// Returns `http://HOST:PORT`.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    pub fn fail_next(&self, operation: &str, fault: ApiFault) {
        let mut state = self.state();
        state.faults.entry(operation.to_owned()).or_default().push_back(fault);
    }

    /// Fails the next message that contains this text in the request.
    pub fn fail_text(&self, text: &str, fault: ApiFault) {
        self.state().text_faults.push((text.to_owned(), fault));
    }

    /// Closes every stream, as the platform does after some minutes.
    pub fn close_streams(&self) {
        self.state().cards.values_mut().for_each(|card| card.is_streaming = false);
    }

    /// Invalidates all tokens issued so far.
    pub fn revoke_tokens(&self) {
        self.state().valid_token = None;
    }

    /// Sets how many seconds tokens live from now on.
    pub fn set_token_lifetime(&self, seconds: u64) {
        self.state().token_lifetime = seconds;
    }

    /// Sets the `ClientConfig` that connections get.
    pub fn set_config(&self, config: Value) {
        self.state().config = config;
    }

    /// Removes a permission from the app.
    pub fn remove_scope(&self, scope: &str) {
        self.state().scopes.retain(|one| one != scope);
    }

    /// Changes what the platform reports about the app.
    pub fn change_app(&self, change: impl FnOnce(&mut Value)) {
        change(&mut self.state().app);
    }

    /// Refuses all messages to this chat.
    pub fn block(&self, chat: &str) {
        self.state().blocked.push(chat.to_owned());
    }

    /// Adds a file that messages can contain.
    pub fn add_file(&self, key: &str, name: &str, bytes: &[u8]) {
        self.state().files.insert(key.to_owned(), (name.to_owned(), bytes.to_vec()));
    }

    pub fn calls(&self, operation: &str) -> Vec<ApiCall> {
        let state = self.state();
        state.calls.iter().filter(|call| call.name == operation).cloned().collect()
    }

    /// Returns the bot's messages in a chat, in their current form.
    pub fn messages(&self, chat: &str) -> Vec<SeenMessage> {
        let state = self.state();
        let here = state.messages.values().filter(|one| one.chat == chat);
        here.map(|one| state.see(one)).collect()
    }

    pub fn acks(&self) -> Vec<Acknowledgement> {
        self.state().acks.clone()
    }

    pub fn pings(&self) -> Vec<Instant> {
        self.state().pings.clone()
    }

    /// Returns how many tokens were issued.
    pub fn tokens(&self) -> usize {
        self.state().tokens
    }

    /// Returns whether every event was acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        self.state().events.iter().all(|event| event.is_acked)
    }

    /// Returns how often events were delivered.
    pub fn deliveries(&self) -> usize {
        self.state().deliveries
    }

    /// Returns how many clients are connected.
    pub fn connections(&self) -> usize {
        self.state().sockets.len()
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        self.state().sockets.drain(..).for_each(|socket| socket.cut());
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ServerState> {
        self.shared.state.lock().unwrap()
    }
}

impl ServerState {
    fn new() -> Self {
        let scopes = [
            "im:message:send_as_bot",
            "im:message.p2p_msg:readonly",
            "im:message.group_at_msg:readonly",
            "im:resource",
            "cardkit:card:write",
            "contact:user.base:readonly",
            "im:chat:readonly",
            "application:application:self_manage",
        ];
        Self {
            address: String::new(),
            sockets: Vec::new(),
            tickets: Vec::new(),
            events: Vec::new(),
            deliveries: 0,
            acks: Vec::new(),
            pings: Vec::new(),
            config: json!({
                "ReconnectCount": -1, "ReconnectInterval": 1, "ReconnectNonce": 0, "PingInterval": 120,
            }),
            tokens: 0,
            valid_token: None,
            token_lifetime: 7200,
            calls: Vec::new(),
            faults: HashMap::new(),
            text_faults: Vec::new(),
            messages: BTreeMap::new(),
            said: HashMap::new(),
            by_uuid: HashMap::new(),
            cards: HashMap::new(),
            files: HashMap::new(),
            blocked: Vec::new(),
            scopes: scopes.map(str::to_owned).to_vec(),
            app: json!({
                "app_id": APP_ID, "app_name": BOT_NAME, "status": 1,
                "event": {"subscription_type": "websocket", "subscribed_events": ["im.message.receive_v1"]},
                "callback": {"callback_type": "websocket", "subscribed_callbacks": ["card.action.trigger"]},
            }),
            next_id: 0,
        }
    }

    fn fresh_id(&mut self, kind: &str) -> String {
        self.next_id += 1;
        format!("{kind}_{:06}", self.next_id)
    }

    /// Sends an event to the newest connection, if there is one.
    fn deliver(&mut self, index: usize) {
        let Some(socket) = self.sockets.last().cloned() else { return };
        let event = &mut self.events[index];
        event.sent_at = Some(Instant::now());
        self.deliveries += 1;
        let size = event.payload.len().div_ceil(event.parts).max(1);
        let parts: Vec<&[u8]> = event.payload.chunks(size).collect();
        // The parts arrive in any order.
        for (seq, payload) in parts.iter().enumerate().rev() {
            let header = |key: &str, value: String| (key.to_owned(), value);
            let headers = vec![
                header("type", "event".to_owned()),
                header("message_id", event.id.clone()),
                header("sum", parts.len().to_string()),
                header("seq", seq.to_string()),
                header("trace_id", format!("trace-{}", event.id)),
            ];
            let payload = payload.to_vec();
            let frame = WireFrame { service: SERVICE, method: 1, headers, payload };
            socket.send_binary(frame.to_bytes());
        }
    }

    fn take_ack(&mut self, frame: WireFrame) {
        let body: Value = serde_json::from_slice(&frame.payload).unwrap_or_default();
        let code = body["code"].as_i64().unwrap_or_default();
        let answer = body["data"].as_str().and_then(|data| STANDARD.decode(data).ok());
        let answer = answer.and_then(|data| serde_json::from_slice(&data).ok());
        let id = frame.header("message_id").to_owned();
        let Some(event) = self.events.iter_mut().find(|event| event.id == id) else { return };
        event.is_acked |= code == 200;
        let after = event.sent_at.map_or(Duration::ZERO, |at| at.elapsed());
        self.acks.push(Acknowledgement { code, answer, frame, after });
    }
}

impl PlatformFake for Shared {
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer> {
        api::answer(&mut self.state.lock().unwrap(), request)
    }

    fn open_socket(&self, request: &PlatformRequest) -> Result<(), PlatformAnswer> {
        let mut state = self.state.lock().unwrap();
        let ticket = request.query.get("ticket").cloned().unwrap_or_default();
        let known = state.tickets.iter().position(|one| *one == ticket);
        match known {
            Some(index) => {
                state.tickets.remove(index);
                Ok(())
            }
            None => Err(PlatformAnswer::json(403, &Value::Null)
                .with_header("handshake-status", "403")
                .with_header("handshake-msg", "the ticket is not valid")),
        }
    }

    fn socket_opened(&self, _request: &PlatformRequest, socket: &ClientSocket) {
        let mut state = self.state.lock().unwrap();
        state.sockets.push(socket.clone());
        // Resend the events that were not acknowledged.
        for index in 0..state.events.len() {
            if !state.events[index].is_acked {
                state.deliver(index);
            }
        }
    }

    fn frame(&self, socket: &ClientSocket, frame: SocketFrame) {
        let SocketFrame::Binary(bytes) = frame else { return };
        let Some(frame) = WireFrame::from_bytes(&bytes) else { return };
        let mut state = self.state.lock().unwrap();
        if frame.method == 1 {
            state.take_ack(frame);
        } else if frame.header("type") == "ping" && frame.service == SERVICE {
            state.pings.push(Instant::now());
            let headers = vec![("type".to_owned(), "pong".to_owned())];
            let payload = state.config.to_string().into_bytes();
            let pong = WireFrame { service: SERVICE, method: 0, headers, payload };
            socket.send_binary(pong.to_bytes());
        }
    }

    fn socket_closed(&self, socket: &ClientSocket) {
        self.state.lock().unwrap().sockets.retain(|one| one.id() != socket.id());
    }
}
