//! A fake of WeCom's AI bots on loopback: one `WebSocket` for everything, and people's files. It is verified
//! with the official Node.js library before our adapter is tested against it.
//!
//! - `frames`: the frames of a bot, and the answers to them.
//! - `files`: encrypts files like the platform.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod frames;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pulldown_cmark::{Event, Options, Parser, TagEnd};
use serde_json::{Value, json};

use crate::platform_server::{
    ClientSocket, PlatformAnswer, PlatformFake, PlatformRequest, SocketFrame, serve_platform,
};

pub const BOT_ID: &str = "aibfakebot";
pub const SECRET: &str = "fake-secret-of-the-bot";

/// A fake server, which records everything that is sent to it.
#[derive(Clone, Debug)]
pub struct WecomServer {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ServerState>,
}

#[derive(Debug, Default)]
struct ServerState {
    address: String,
    /// The bot's connection.
    bot: Option<ClientSocket>,
    subscriptions: usize,
    calls: Vec<BotCall>,
    messages: Vec<WecomMessage>,
    /// What can be answered: the chat and the kind of each callback.
    callbacks: HashMap<String, OpenCallback>,
    faults: HashMap<String, VecDeque<BotFault>>,
    uploads: HashMap<String, Upload>,
    media: HashMap<String, (String, Vec<u8>)>,
    files: HashMap<String, Vec<u8>>,
    blocked: Vec<String>,
    last_event: Option<Value>,
    deliveries: usize,
    /// Whether the server has ended all streams on its own.
    dead_streams: bool,
    next_id: u64,
}

#[derive(Clone, Debug)]
struct OpenCallback {
    chat: String,
    is_press: bool,
    at: Instant,
}

#[derive(Debug)]
struct Upload {
    name: String,
    size: usize,
    digest: String,
    parts: Vec<Option<Vec<u8>>>,
}

/// A frame from the bot.
#[derive(Clone, Debug)]
pub struct BotCall {
    pub cmd: String,
    pub req_id: String,
    pub body: Value,
}

/// A message from the bot in its current form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WecomMessage {
    /// The id of a card or a stream.
    pub id: String,
    pub chat: String,
    /// The Markdown, or the title and the text of a card.
    pub text: String,
    /// Labels and keys.
    pub buttons: Vec<(String, String)>,
    /// The buttons that the message had when it was sent.
    pub first_buttons: Vec<(String, String)>,
    pub file: Option<(String, Vec<u8>)>,
    pub way: BotWay,
    /// Whether this is a stream that is still open.
    pub is_open: bool,
}

/// How a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotWay {
    Stream,
    Push,
}

/// How the next frame of a kind fails.
#[derive(Clone, Debug)]
pub enum BotFault {
    /// This code, with a message.
    Refuse(i64, String),
    /// The frame is processed, but the connection is cut before the answer.
    Cut,
    /// The frame is processed, but never answered.
    Silence,
}

impl WecomServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let address = serve_platform(Arc::clone(&shared));
        shared.state.lock().unwrap().address.clone_from(&address);
        Self { address, shared }
    }

    /// Returns `http://HOST:PORT`.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    fn with<T>(&self, change: impl FnOnce(&mut ServerState) -> T) -> T {
        change(&mut self.shared.state.lock().unwrap())
    }

    /// Simulates a direct message from a person to the bot. Returns the id of the message.
    pub fn say(&self, person: &str, text: &str) -> String {
        self.push_message(person, None, &json!({"msgtype": "text", "text": {"content": text}}))
    }

    /// Simulates that a person mentions the bot in a group.
    pub fn say_in_group(&self, person: &str, group: &str, text: &str) -> String {
        let content = format!("@Bot {text}");
        let content = json!({"msgtype": "text", "text": {"content": content}});
        self.push_message(person, Some(group), &content)
    }

    /// Simulates an encrypted file from a person.
    pub fn send_file(&self, person: &str, bytes: &[u8]) {
        let item = self.add_file(bytes);
        self.push_message(person, None, &json!({"msgtype": "file", "file": item}));
    }

    /// Adds a file that can be fetched. Returns its address and its key in the form used in messages.
    pub fn add_file(&self, bytes: &[u8]) -> Value {
        self.with(|state| {
            let id = state.fresh_id();
            let key: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap() ^ 0x5a);
            state.files.insert(format!("f{id}"), files::encrypt(&key, bytes));
            json!({"url": format!("{}/files/f{id}", state.address), "aeskey": STANDARD.encode(key)})
        })
    }

    /// Delivers a message with this content.
    pub fn push_message(&self, person: &str, group: Option<&str>, content: &Value) -> String {
        self.with(|state| {
            let id = format!("msg{}", state.fresh_id());
            let mut body = json!({
                "msgid": id, "aibotid": BOT_ID, "chattype": "single", "from": {"userid": person},
                "create_time": unix_seconds(),
            });
            if let Some(group) = group {
                body["chatid"] = group.into();
                body["chattype"] = "group".into();
            }
            body.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
            let chat = group.unwrap_or(person);
            state.push("aibot_msg_callback", &body, chat, false);
            id
        })
    }

    /// Simulates that a person presses a button on a card, in the chat of the card.
    pub fn press(&self, person: &str, card: &WecomMessage, key: &str) {
        self.with(|state| {
            let fields = json!({
                "card_type": "button_interaction", "event_key": key, "task_id": card.id,
            });
            let mut body = json!({
                "msgid": format!("event{}", state.fresh_id()), "aibotid": BOT_ID,
                "create_time": unix_seconds(), "from": {"userid": person}, "msgtype": "event",
                "event": {"eventtype": "template_card_event", "template_card_event": fields},
            });
            // The library's types expect the fields here.
            body["event"]["event_key"] = key.into();
            body["event"]["task_id"] = card.id.as_str().into();
            body["chattype"] = "single".into();
            if card.chat.starts_with("wr") {
                body["chatid"] = card.chat.as_str().into();
                body["chattype"] = "group".into();
            }
            state.push("aibot_event_callback", &body, &card.chat, true);
        });
    }

    /// Simulates that another program connects with the same bot.
    pub fn displace(&self) {
        self.with(|state| {
            let body = json!({
                "msgid": "d", "aibotid": BOT_ID, "create_time": unix_seconds(), "msgtype": "event",
                "from": {"userid": ""}, "event": {"eventtype": "disconnected_event"},
            });
            let frame = json!({
                "cmd": "aibot_event_callback", "headers": {"req_id": "displaced"}, "body": body,
            });
            if let Some(bot) = state.bot.take() {
                bot.send_json(&frame);
                bot.close(1000, "displaced");
            }
        });
    }

    /// Sends a frame unchanged.
    pub fn push_raw(&self, text: &str) {
        self.with(|state| state.bot.iter().for_each(|bot| bot.send_text(text)));
    }

    /// Delivers the last event this many more times.
    pub fn repeat(&self, times: usize) {
        self.with(|state| {
            let Some(frame) = state.last_event.clone() else { return };
            for _ in 0..times {
                state.deliver(&frame);
            }
        });
    }

    pub fn cut(&self) {
        self.with(|state| {
            if let Some(bot) = state.bot.take() {
                bot.cut();
            }
        });
    }

    pub fn fail_next(&self, cmd: &str, fault: BotFault) {
        self.with(|state| state.faults.entry(cmd.to_owned()).or_default().push_back(fault));
    }

    /// Ends every stream from now on.
    pub fn end_streams(&self) {
        self.with(|state| state.dead_streams = true);
    }

    /// Blocks the bot's messages to this person.
    pub fn block(&self, person: &str) {
        self.with(|state| state.blocked.push(person.to_owned()));
    }

    /// Returns whether the bot is connected.
    pub fn is_connected(&self) -> bool {
        self.with(|state| state.bot.as_ref().is_some_and(ClientSocket::is_open))
    }

    /// Returns how often the bot has connected.
    pub fn subscriptions(&self) -> usize {
        self.with(|state| state.subscriptions)
    }

    pub fn deliveries(&self) -> usize {
        self.with(|state| state.deliveries)
    }

    pub fn calls(&self, cmd: &str) -> Vec<BotCall> {
        self.with(|state| state.calls.iter().filter(|one| one.cmd == cmd).cloned().collect())
    }

    /// Returns the bot's messages in a chat, in their current form.
    pub fn messages(&self, chat: &str) -> Vec<WecomMessage> {
        self.with(|state| state.messages.iter().filter(|one| one.chat == chat).cloned().collect())
    }
}

impl ServerState {
    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn push(&mut self, cmd: &str, body: &Value, chat: &str, is_press: bool) {
        let req_id = format!("req{}", self.fresh_id());
        let callback = OpenCallback { chat: chat.to_owned(), is_press, at: Instant::now() };
        self.callbacks.insert(req_id.clone(), callback);
        let frame = json!({"cmd": cmd, "headers": {"req_id": req_id}, "body": body});
        self.deliver(&frame);
        self.last_event = Some(frame);
    }

    fn deliver(&mut self, frame: &Value) {
        if let Some(bot) = &self.bot {
            bot.send_json(frame);
            self.deliveries += 1;
        }
    }
}

/// Returns the text of a message as a person sees it.
pub fn visible_text(markdown: &str) -> String {
    let known = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut shown = String::new();
    for event in Parser::new_ext(markdown, known) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                shown.push_str(&text);
            }
            Event::SoftBreak
            | Event::HardBreak
            | Event::End(TagEnd::Paragraph | TagEnd::CodeBlock | TagEnd::Item) => shown.push('\n'),
            _ => {}
        }
    }
    shown.trim_end().to_owned()
}

fn unix_seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_secs()
}

impl PlatformFake for Shared {
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer> {
        let state = self.state.lock().unwrap();
        let file = request.path.strip_prefix("/files/").and_then(|id| state.files.get(id));
        Some(match file {
            Some(bytes) => PlatformAnswer::bytes(200, "application/octet-stream", bytes.clone())
                .with_header("content-disposition", "attachment; filename=\"notes.txt\""),
            None => PlatformAnswer::json(404, &Value::Null),
        })
    }

    fn open_socket(&self, _request: &PlatformRequest) -> Result<(), PlatformAnswer> {
        Ok(())
    }

    fn frame(&self, socket: &ClientSocket, frame: SocketFrame) {
        let Some(frame) = frame.json() else { return };
        frames::handle(&mut self.state.lock().unwrap(), socket, &frame);
    }

    fn socket_closed(&self, socket: &ClientSocket) {
        let mut state = self.state.lock().unwrap();
        if state.bot.as_ref().is_some_and(|bot| bot.id() == socket.id()) {
            state.bot = None;
        }
    }
}

/// How long a press can be answered.
const PRESS_WINDOW: Duration = Duration::from_secs(5);
