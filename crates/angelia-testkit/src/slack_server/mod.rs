//! A fake Slack server on loopback: the Web API and Socket Mode, with the refusals of the real one. It is
//! verified with Slack's own Python libraries before our adapter is tested against it.
//!
//! - `people`: what people do in the workspace.
//! - `methods`: the methods of the Web API; `streams`: those that write answers as they arrive.
//! - `blocks`, `markdown`: parse formatted texts like the real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocks;
mod markdown;
mod methods;
mod people;
mod streams;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Instant,
};

use serde_json::{Value, json};

pub use self::blocks::{ReadBlocks, read_blocks};
use self::methods::{Caller, answer_method};
use crate::platform_server::{
    ClientSocket, PlatformAnswer, PlatformFake, PlatformRequest, SocketFrame, serve_platform,
};

pub const BOT_TOKEN: &str = "xoxb-1-TEST-token-of-the-fake";
pub const APP_TOKEN: &str = "xapp-1-A1-TEST-token-of-the-fake";
pub const BOT_USER: &str = "UBOT0";
pub const TEAM: &str = "T0001";

/// The scopes of the bot's token.
const SCOPES: &str = "app_mentions:read,chat:write,im:history,im:read,channels:history,groups:history,\
                      files:read,files:write,reactions:write,commands,users:read";

/// A fake server, which records everything that is sent to it.
#[derive(Clone, Debug)]
pub struct SlackServer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ServerState>,
}

#[derive(Debug, Default)]
struct ServerState {
    address: String,
    scopes: String,
    calls: Vec<ApiCall>,
    /// By channel and time.
    messages: BTreeMap<(String, String), SlackMessage>,
    /// The buttons that a message had when it was sent.
    sent_buttons: HashMap<String, Vec<(String, String)>>,
    next_id: u64,
    /// Addresses of sockets that have not been used yet.
    tickets: Vec<String>,
    sockets: Vec<ClientSocket>,
    sockets_opened: usize,
    most_sockets: usize,
    events: Vec<SentEvent>,
    acknowledged: usize,
    faults: HashMap<String, VecDeque<SlackFault>>,
    text_faults: Vec<(String, SlackFault)>,
    unknown: Vec<String>,
    archived: Vec<String>,
    files: HashMap<String, UploadedFile>,
    disabled: bool,
}

/// An event, with the ids of the envelopes in which it was sent.
#[derive(Debug)]
struct SentEvent {
    kind: &'static str,
    payload: Value,
    envelopes: Vec<String>,
    is_acknowledged: bool,
}

#[derive(Clone, Debug, Default)]
struct UploadedFile {
    name: String,
    length: usize,
    content: Option<Vec<u8>>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct ApiCall {
    pub method: String,
    pub fields: Value,
    pub at: Instant,
}

/// A message from the bot in its current form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlackMessage {
    pub channel: String,
    /// The message's time, which is its id.
    pub ts: String,
    pub thread: Option<String>,
    /// The text without its formatting.
    pub text: String,
    pub buttons: Vec<(String, String)>,
    /// The name and the content of a file.
    pub file: Option<(String, Vec<u8>)>,
    pub edits: usize,
    /// For a stream: the Markdown so far.
    pub markdown: String,
    pub is_streaming: bool,
    /// The tasks of a stream: title and status, by id.
    pub tasks: BTreeMap<String, (String, String)>,
}

/// How the next request to a method fails.
#[derive(Clone, Debug)]
pub enum SlackFault {
    /// `"ok": false` with this error.
    Refuse(String),
    /// 429: retry after this many seconds.
    TooMany(u64),
    /// The request is processed, but the connection is cut before the answer.
    Cut,
    /// Something that is not JSON.
    Garbage,
}

impl SlackServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let address = serve_platform(Arc::clone(&shared));
        {
            let mut state = shared.lock();
            state.address = address;
            SCOPES.clone_into(&mut state.scopes);
        }
        Self { shared }
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.shared.lock()
    }

    /// Returns `http://HOST:PORT`.
    pub fn base_url(&self) -> String {
        self.lock().address.clone()
    }

    pub fn set_scopes(&self, scopes: &str) {
        scopes.clone_into(&mut self.lock().scopes);
    }

    /// Simulates that the owner turns Socket Mode off.
    pub fn disable_sockets(&self) {
        self.lock().disabled = true;
        self.disconnect("link_disabled");
    }

    pub fn fail_next(&self, method: &str, fault: SlackFault) {
        self.lock().faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// Fails the next message with this text.
    pub fn fail_text(&self, text: &str, fault: SlackFault) {
        self.lock().text_faults.push((text.to_owned(), fault));
    }

    /// Makes a method unknown from now on.
    pub fn forget_method(&self, method: &str) {
        self.lock().unknown.push(method.to_owned());
    }

    /// Archives a channel, so that nobody can write to it.
    pub fn archive(&self, channel: &str) {
        self.lock().archived.push(channel.to_owned());
    }

    /// Ends all streams, as the real server does after some minutes.
    pub fn seal_streams(&self) {
        for message in self.lock().messages.values_mut() {
            message.is_streaming = false;
        }
    }

    pub fn calls(&self, method: &str) -> Vec<ApiCall> {
        let state = self.lock();
        state.calls.iter().filter(|call| call.method == method).cloned().collect()
    }

    /// Returns the bot's messages in a channel, in their current form.
    pub fn messages(&self, channel: &str) -> Vec<SlackMessage> {
        let state = self.lock();
        state.messages.values().filter(|one| one.channel == channel).cloned().collect()
    }

    /// Returns the buttons that a message had when it was sent.
    pub fn sent_buttons(&self, ts: &str) -> Vec<(String, String)> {
        self.lock().sent_buttons.get(ts).cloned().unwrap_or_default()
    }

    /// Asks the clients to leave their sockets.
    pub fn disconnect(&self, reason: &str) {
        let frame = json!({
            "type": "disconnect", "reason": reason, "debug_info": {"host": "applink-fake"},
        });
        for socket in &self.lock().sockets {
            socket.send_json(&frame);
        }
    }

    /// Cuts all sockets.
    pub fn cut_sockets(&self) {
        for socket in self.lock().sockets.drain(..) {
            socket.cut();
        }
    }

    /// Sends a frame unchanged.
    pub fn send_text(&self, text: &str) {
        for socket in &self.lock().sockets {
            socket.send_text(text);
        }
    }

    pub fn open_sockets(&self) -> usize {
        self.lock().sockets.len()
    }

    pub fn sockets_opened(&self) -> usize {
        self.lock().sockets_opened
    }

    /// Returns the maximum number of sockets that were open at the same time.
    pub fn most_sockets(&self) -> usize {
        self.lock().most_sockets
    }

    /// Returns how many envelopes were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.lock().acknowledged
    }

    /// Returns whether every event was acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        self.lock().events.iter().all(|event| event.is_acknowledged)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap()
    }
}

impl ServerState {
    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns the time of a new message, later than all earlier ones.
    fn new_ts(&mut self) -> String {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        format!("{}.{:06}", since.as_secs(), self.new_id())
    }

    /// Sends an event to one of the sockets. It is resent if a socket opens before the event was
    /// acknowledged.
    fn deliver(&mut self, index: usize) {
        let id = format!("envelope-{}", self.new_id());
        let event = &mut self.events[index];
        let attempt = event.envelopes.len();
        event.envelopes.push(id.clone());
        let mut frame = json!({
            "type": event.kind, "envelope_id": id, "payload": event.payload,
            "accepts_response_payload": event.kind != "events_api",
        });
        if attempt > 0 {
            frame["retry_attempt"] = attempt.into();
            frame["retry_reason"] = "timeout".into();
        }
        if let Some(socket) = self.sockets.last() {
            socket.send_json(&frame);
        }
    }
}

impl PlatformFake for Shared {
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer> {
        let mut state = self.lock();
        if let Some(id) = request.path.strip_prefix("/upload/") {
            return Some(take_upload(&mut state, id, &request.body));
        }
        if let Some(id) = request.path.strip_prefix("/files-pri/") {
            return Some(give_file(&state, id, request));
        }
        let Some(method) = request.path.strip_prefix("/api/") else {
            return Some(PlatformAnswer::bytes(404, "text/html", "<html>not found"));
        };
        answer(&mut state, method, request)
    }

    fn open_socket(&self, request: &PlatformRequest) -> Result<(), PlatformAnswer> {
        let mut state = self.lock();
        let ticket = request.query.get("ticket").cloned().unwrap_or_default();
        let known = state.tickets.iter().position(|one| *one == ticket);
        let Some(known) = known.filter(|_| request.path == "/link") else {
            return Err(PlatformAnswer::json(401, &Value::Null));
        };
        state.tickets.remove(known);
        Ok(())
    }

    fn socket_opened(&self, _request: &PlatformRequest, socket: &ClientSocket) {
        let mut state = self.lock();
        if state.disabled {
            socket.send_json(&json!({"type": "disconnect", "reason": "link_disabled"}));
            return;
        }
        state.sockets.push(socket.clone());
        state.sockets_opened += 1;
        state.most_sockets = state.most_sockets.max(state.sockets.len());
        socket.send_json(&json!({
            "type": "hello", "num_connections": state.sockets.len(),
            "connection_info": {"app_id": "A1"},
            "debug_info": {"host": "applink-fake", "approximate_connection_time": 18060},
        }));
        let left: Vec<usize> =
            (0..state.events.len()).filter(|index| !state.events[*index].is_acknowledged).collect();
        for index in left {
            state.deliver(index);
        }
    }

    fn frame(&self, _socket: &ClientSocket, frame: SocketFrame) {
        let frame = frame.json().unwrap_or_default();
        let Some(id) = frame["envelope_id"].as_str() else { return };
        let mut state = self.lock();
        let has_id = |event: &&mut SentEvent| event.envelopes.iter().any(|one| one == id);
        if let Some(event) = state.events.iter_mut().find(has_id) {
            event.is_acknowledged = true;
            state.acknowledged += 1;
        }
    }

    fn socket_closed(&self, socket: &ClientSocket) {
        self.lock().sockets.retain(|one| one.id() != socket.id());
    }
}

fn take_upload(state: &mut ServerState, id: &str, content: &[u8]) -> PlatformAnswer {
    match state.files.get_mut(id).filter(|file| file.length == content.len()) {
        Some(file) => {
            file.content = Some(content.to_vec());
            PlatformAnswer::bytes(200, "text/plain", format!("OK - {}", content.len()))
        }
        None => PlatformAnswer::bytes(400, "text/plain", "wrong length"),
    }
}

/// Returns a file. Without the token, the real server answers with its login page.
fn give_file(state: &ServerState, id: &str, request: &PlatformRequest) -> PlatformAnswer {
    let content = state.files.get(id).and_then(|file| file.content.clone());
    match content {
        None => PlatformAnswer::bytes(404, "text/html", "<html>not found"),
        Some(_) if request.header("authorization") != format!("Bearer {BOT_TOKEN}") => {
            PlatformAnswer::bytes(200, "text/html; charset=utf-8", "<html>sign in")
        }
        Some(content) => PlatformAnswer::bytes(200, "application/octet-stream", content),
    }
}

/// Returns the answer to a method, or `None` if the connection is cut.
fn answer(
    state: &mut ServerState,
    method: &str,
    request: &PlatformRequest,
) -> Option<PlatformAnswer> {
    let fields = &request.fields;
    let header = request.header("authorization").strip_prefix("Bearer ");
    let caller = Caller::of(header.or(fields["token"].as_str()).unwrap_or_default());
    let call = ApiCall { method: method.to_owned(), fields: fields.clone(), at: Instant::now() };
    state.calls.push(call);
    let fault = state.faults.get_mut(method).and_then(VecDeque::pop_front);
    let text = fields["text"].as_str().unwrap_or_default();
    let by_text = state.text_faults.iter().position(|(wanted, _)| wanted == text);
    let by_text = by_text.map(|index| state.text_faults.remove(index).1);
    let outcome = match fault.or(by_text) {
        Some(SlackFault::Refuse(error)) => Err(error),
        Some(SlackFault::TooMany(seconds)) => {
            let body = json!({"ok": false, "error": "ratelimited"});
            let answer = PlatformAnswer::json(429, &body);
            return Some(answer.with_header("retry-after", &seconds.to_string()));
        }
        Some(SlackFault::Garbage) => {
            return Some(PlatformAnswer::bytes(502, "text/html", "<html>bad gateway"));
        }
        Some(SlackFault::Cut) => {
            let _done = answer_method(state, method, fields, caller);
            return None;
        }
        None => answer_method(state, method, fields, caller),
    };
    let body = match outcome {
        Ok(mut body) => {
            body["ok"] = true.into();
            body
        }
        Err(error) => json!({"ok": false, "error": error}),
    };
    let scopes = match caller {
        Caller::Bot => state.scopes.clone(),
        Caller::App => "connections:write".to_owned(),
        Caller::Nobody => String::new(),
    };
    Some(PlatformAnswer::json(200, &body).with_header("x-oauth-scopes", &scopes))
}
