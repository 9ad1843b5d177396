//! A fake DingTalk server on loopback: its API, its session webhooks and its stream. It is verified with the
//! official Python library before our adapter is tested against it.
//!
//! - `requests`: the API calls.
//! - `markdown`: parses the formatting of a text like a client.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod markdown;
mod requests;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub use self::markdown::visible_text;
use crate::platform_server::{
    ClientSocket, PlatformAnswer, PlatformFake, PlatformRequest, SocketFrame, serve_platform,
};

pub const CLIENT_ID: &str = "dingfakeclient";
pub const CLIENT_SECRET: &str = "fake-client-secret";
pub const TEMPLATE: &str = "fake-template.schema";

/// The topics of messages and button presses.
pub const MESSAGE_TOPIC: &str = "/v1.0/im/bot/messages/get";
pub const CARD_TOPIC: &str = "/v1.0/card/instances/callback";

const CORP: &str = "dingfakecorp";

/// Interval at which the server asks each client for a sign of life.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// A fake server, which records everything that is sent to it.
#[derive(Clone, Debug)]
pub struct DingTalkServer {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ServerState>,
}

#[derive(Debug)]
struct ServerState {
    address: String,
    sockets: Vec<StreamSocket>,
    tickets: HashSet<String>,
    events: Vec<PushedEvent>,
    deliveries: usize,
    log: Vec<StreamLog>,
    acknowledgements: Vec<Value>,
    calls: Vec<RobotCall>,
    messages: Vec<RobotMessage>,
    faults: HashMap<String, VecDeque<RobotFault>>,
    tokens: HashSet<String>,
    token_lifetime: u64,
    /// The chat of each session webhook.
    sessions: HashMap<String, String>,
    session_lifetime: Duration,
    files: HashMap<String, Vec<u8>>,
    media: HashMap<String, (String, Vec<u8>)>,
    blocked: Vec<String>,
    /// Permissions that the app lacks, by the path that needs them.
    denied: HashMap<String, String>,
    next_id: u64,
}

impl Default for ServerState {
    fn default() -> Self {
        Self {
            address: String::new(),
            sockets: Vec::new(),
            tickets: HashSet::new(),
            events: Vec::new(),
            deliveries: 0,
            log: Vec::new(),
            acknowledgements: Vec::new(),
            calls: Vec::new(),
            messages: Vec::new(),
            faults: HashMap::new(),
            tokens: HashSet::new(),
            token_lifetime: 7200,
            sessions: HashMap::new(),
            session_lifetime: Duration::from_mins(90),
            files: HashMap::new(),
            media: HashMap::new(),
            blocked: Vec::new(),
            denied: HashMap::new(),
            next_id: 1,
        }
    }
}

#[derive(Debug)]
struct StreamSocket {
    socket: ClientSocket,
    /// Whether the client was told to leave, so that it gets nothing more.
    is_leaving: bool,
}

#[derive(Clone, Debug)]
struct PushedEvent {
    frame: Value,
    is_acknowledged: bool,
}

/// Something that happened on the stream, with the number of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamLog {
    /// A client requests a socket with a valid ticket.
    Dialled,
    Opened(u64),
    Left(u64),
    Closed(u64),
}

/// A request.
#[derive(Clone, Debug)]
pub struct RobotCall {
    pub path: String,
    pub fields: Value,
    pub headers: std::collections::BTreeMap<String, String>,
    pub query: std::collections::BTreeMap<String, String>,
    pub at: Instant,
}

/// How a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageWay {
    SessionWebhook,
    Api,
    Card,
}

/// A message from the robot in its current form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotMessage {
    pub id: String,
    /// `user:STAFF` or the id of a conversation.
    pub chat: String,
    /// The text without its formatting.
    pub text: String,
    /// Labels, and the id or the address of each button.
    pub buttons: Vec<(String, String)>,
    /// The buttons that the message had when it was sent.
    pub first_buttons: Vec<(String, String)>,
    /// The name and the content of a file.
    pub file: Option<(String, Vec<u8>)>,
    pub way: MessageWay,
    /// The status of a card, as its template shows it.
    pub status: String,
}

/// How the next request to a path fails.
#[derive(Clone, Debug)]
pub enum RobotFault {
    /// This status, with a code and a message.
    Refuse(u16, String, String),
    /// A success whose body says otherwise, as with session webhooks.
    ErrorCode(i64),
    /// The request is processed, but the connection is cut before the answer.
    Cut,
}

impl DingTalkServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let address = serve_platform(Arc::clone(&shared));
        shared.state.lock().unwrap().address.clone_from(&address);
        let pinged = Arc::downgrade(&shared);
        thread::spawn(move || {
            while let Some(shared) = pinged.upgrade() {
                shared.state.lock().unwrap().ping_all();
                drop(shared);
                thread::sleep(PING_INTERVAL);
            }
        });
        Self { address, shared }
    }

    /// Returns `http://HOST:PORT`.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    fn with<T>(&self, change: impl FnOnce(&mut ServerState) -> T) -> T {
        change(&mut self.shared.state.lock().unwrap())
    }

    /// Simulates a direct message from a person to the robot.
    pub fn say(&self, person: &str, text: &str) {
        self.push_message(person, None, &json!({"msgtype": "text", "text": {"content": text}}));
    }

    /// Simulates that a person mentions the robot in a group.
    pub fn say_in_group(&self, person: &str, group: &str, text: &str) {
        let text = format!(" {text}");
        let content = json!({"msgtype": "text", "text": {"content": text}, "isInAtList": true});
        self.push_message(person, Some(group), &content);
    }

    /// Simulates a file from a person. It can be fetched once the robot asks for its address.
    pub fn send_file(&self, person: &str, name: &str, bytes: &[u8]) {
        let code = format!("code-{}", self.with(ServerState::fresh_id));
        self.add_file(&code, bytes);
        let content = json!({"downloadCode": code, "fileName": name});
        self.push_message(person, None, &json!({"msgtype": "file", "content": content}));
    }

    /// Adds a file that can be fetched by its code.
    pub fn add_file(&self, code: &str, bytes: &[u8]) {
        self.with(|state| state.files.insert(code.to_owned(), bytes.to_vec()));
    }

    /// Delivers a message with these fields in addition to the usual ones.
    pub fn push_message(&self, person: &str, group: Option<&str>, content: &Value) {
        self.with(|state| {
            let chat = group.map_or_else(|| format!("user:{person}"), str::to_owned);
            let session = format!("session-{}", state.fresh_id());
            state.sessions.insert(session.clone(), chat);
            let end = unix_millis() + i64::try_from(state.session_lifetime.as_millis()).unwrap();
            let mut data = json!({
                "msgId": format!("msg{}==", state.fresh_id()),
                "conversationId": group.unwrap_or("cidDirect=="),
                "conversationType": if group.is_some() { "2" } else { "1" },
                "senderId": format!("$:LWCP_v1:${person}"), "senderStaffId": person,
                "senderNick": format!("Person {person}"), "senderCorpId": CORP, "isAdmin": false,
                "chatbotCorpId": CORP, "chatbotUserId": "$:LWCP_v1:$robot", "robotCode": CLIENT_ID,
                "sessionWebhook": format!("{}/robot/sendBySession?session={session}", state.address),
                "sessionWebhookExpiredTime": end, "createAt": unix_millis(),
            });
            data.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
            state.push(MESSAGE_TOPIC, &data);
        });
    }

    /// Simulates that a person presses a button on a card.
    pub fn press(&self, person: &str, card: &str, button: &str) {
        let content = json!({"cardPrivateData": {"actionIds": [button], "params": {}}});
        let data = json!({
            "extension": "{}", "corpId": CORP, "type": "actionCallback", "userId": person,
            "userIdType": 1, "outTrackId": card, "content": content.to_string(),
        });
        self.with(|state| state.push(CARD_TOPIC, &data));
    }

    /// Sends a frame unchanged, without expecting an acknowledgement.
    pub fn push_raw(&self, text: &str) {
        self.with(|state| {
            for socket in state.sockets.iter().filter(|one| !one.is_leaving) {
                socket.socket.send_text(text);
            }
        });
    }

    /// Delivers the last event this many more times.
    pub fn repeat(&self, times: usize) {
        self.with(|state| {
            let Some(event) = state.events.last().cloned() else { return };
            for _ in 0..times {
                state.deliver(&event.frame);
            }
        });
    }

    /// Tells every client to leave: nothing more arrives on its socket, which stays open.
    pub fn disconnect(&self) {
        self.with(|state| {
            let id = state.fresh_id();
            for socket in state.sockets.iter_mut().filter(|one| !one.is_leaving) {
                socket.is_leaving = true;
                socket.socket.send_json(&json!({
                    "specVersion": "1.0", "type": "SYSTEM",
                    "headers": {"topic": "disconnect", "messageId": format!("sys-{id}"),
                                "contentType": "application/json", "time": unix_millis().to_string()},
                    "data": json!({"reason": "persistent connection closed"}).to_string(),
                }));
                state.log.push(StreamLog::Left(socket.socket.id()));
            }
        });
    }

    /// Asks every client for a sign of life.
    pub fn ping(&self) {
        self.with(ServerState::ping_all);
    }

    /// Cuts every connection.
    pub fn cut_sockets(&self) {
        self.with(|state| state.sockets.iter().for_each(|one| one.socket.cut()));
    }

    pub fn fail_next(&self, path: &str, fault: RobotFault) {
        self.with(|state| state.faults.entry(path.to_owned()).or_default().push_back(fault));
    }

    /// Invalidates all tokens issued so far.
    pub fn expire_tokens(&self) {
        self.with(|state| state.tokens.clear());
    }

    /// Sets how many seconds the next tokens claim to live.
    pub fn set_token_lifetime(&self, seconds: u64) {
        self.with(|state| state.token_lifetime = seconds);
    }

    /// Sets how long the session webhooks of the next messages live.
    pub fn set_session_lifetime(&self, lifetime: Duration) {
        self.with(|state| state.session_lifetime = lifetime);
    }

    /// Ends every session: its webhook answers with code 300001.
    pub fn close_sessions(&self) {
        self.with(|state| state.sessions.clear());
    }

    /// Removes a permission from the app.
    pub fn deny(&self, path: &str, scope: &str) {
        self.with(|state| state.denied.insert(path.to_owned(), scope.to_owned()));
    }

    /// Blocks the robot's messages to this person.
    pub fn block(&self, person: &str) {
        self.with(|state| state.blocked.push(person.to_owned()));
    }

    pub fn calls(&self, path: &str) -> Vec<RobotCall> {
        self.with(|state| state.calls.iter().filter(|call| call.path == path).cloned().collect())
    }

    /// Returns the robot's messages in a chat, in their current form.
    pub fn messages(&self, chat: &str) -> Vec<RobotMessage> {
        self.with(|state| state.messages.iter().filter(|one| one.chat == chat).cloned().collect())
    }

    /// Returns the answers to frames, newest last.
    pub fn acknowledgements(&self) -> Vec<Value> {
        self.with(|state| state.acknowledgements.clone())
    }

    pub fn is_all_acknowledged(&self) -> bool {
        self.with(|state| state.events.iter().all(|event| event.is_acknowledged))
    }

    /// Returns how many event frames were sent.
    pub fn deliveries(&self) -> usize {
        self.with(|state| state.deliveries)
    }

    pub fn log(&self) -> Vec<StreamLog> {
        self.with(|state| state.log.clone())
    }

    /// Returns how many clients are connected.
    pub fn connections(&self) -> usize {
        self.with(|state| state.sockets.iter().filter(|one| one.socket.is_open()).count())
    }
}

impl ServerState {
    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn push(&mut self, topic: &str, data: &Value) {
        let id = format!("frame-{}", self.fresh_id());
        let frame = json!({
            "specVersion": "1.0", "type": "CALLBACK",
            "headers": {"topic": topic, "messageId": id, "contentType": "application/json",
                        "appId": "app", "connectionId": "c", "time": unix_millis().to_string()},
            "data": data.to_string(),
        });
        self.events.push(PushedEvent { frame: frame.clone(), is_acknowledged: false });
        self.deliver(&frame);
    }

    /// Sends a frame to the newest client that has not been told to leave.
    fn deliver(&mut self, frame: &Value) {
        let usable = |one: &&StreamSocket| !one.is_leaving && one.socket.is_open();
        if let Some(socket) = self.sockets.iter().rev().find(usable) {
            socket.socket.send_json(frame);
            self.deliveries += 1;
        }
    }

    fn ping_all(&mut self) {
        let id = self.fresh_id();
        for socket in &self.sockets {
            socket.socket.send_json(&json!({
                "specVersion": "1.0", "type": "SYSTEM",
                "headers": {"topic": "ping", "messageId": format!("sys-{id}"),
                            "contentType": "application/json", "time": unix_millis().to_string()},
                "data": json!({"opaque": format!("opaque-{id}")}).to_string(),
            }));
        }
    }
}

fn unix_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

impl PlatformFake for Shared {
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer> {
        requests::answer(&mut self.state.lock().unwrap(), request)
    }

    fn open_socket(&self, request: &PlatformRequest) -> Result<(), PlatformAnswer> {
        let ticket = request.query.get("ticket").cloned().unwrap_or_default();
        // A ticket is valid for one connection.
        let mut state = self.state.lock().unwrap();
        if request.path == "/connect" && state.tickets.remove(&ticket) {
            state.log.push(StreamLog::Dialled);
            return Ok(());
        }
        Err(PlatformAnswer::json(401, &json!({"code": "invalidTicket"})))
    }

    fn socket_opened(&self, _request: &PlatformRequest, socket: &ClientSocket) {
        let mut state = self.state.lock().unwrap();
        state.log.push(StreamLog::Opened(socket.id()));
        state.sockets.push(StreamSocket { socket: socket.clone(), is_leaving: false });
        let left: Vec<Value> = state
            .events
            .iter()
            .filter(|event| !event.is_acknowledged)
            .map(|event| event.frame.clone())
            .collect();
        for frame in left {
            state.deliver(&frame);
        }
    }

    fn frame(&self, _socket: &ClientSocket, frame: SocketFrame) {
        let Some(answer) = frame.json() else { return };
        let mut state = self.state.lock().unwrap();
        let id = answer["headers"]["messageId"].clone();
        let is_its = |event: &&mut PushedEvent| event.frame["headers"]["messageId"] == id;
        if let Some(event) = state.events.iter_mut().find(is_its).filter(|_| answer["code"] == 200)
        {
            event.is_acknowledged = true;
        }
        state.acknowledgements.push(answer);
    }

    fn socket_closed(&self, socket: &ClientSocket) {
        let mut state = self.state.lock().unwrap();
        state.log.push(StreamLog::Closed(socket.id()));
        state.sockets.retain(|one| one.socket.id() != socket.id());
    }
}
