//! A fake of Telegram's Bot API on loopback: the transport, and the refusals of the real one. It is verified
//! with the official Python library before our adapter is tested against it.
//!
//! - `html`: parses the formatting of a text like the real server.
//! - `methods`: the methods themselves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod html;
mod methods;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub use self::html::visible_text;
use self::methods::answer_method;
use crate::platform_server::{PlatformAnswer, PlatformFake, PlatformRequest, serve_platform};

/// The bot's token.
pub const TOKEN: &str = "123456:TEST-token_of-the-fake";
pub const BOT_ID: i64 = 123_456;
pub const BOT_NAME: &str = "fake_bot";

/// A fake server, which records everything that is sent to it.
#[derive(Clone, Debug)]
pub struct TelegramServer {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ServerState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ServerState {
    updates: VecDeque<(i64, Value)>,
    next_update: i64,
    next_message: i64,
    /// How many more times updates are delivered, even if they were confirmed.
    repeats: usize,
    calls: Vec<BotCall>,
    messages: BTreeMap<i64, BotMessage>,
    /// The buttons that a message had when it was sent.
    sent_buttons: HashMap<i64, Vec<(String, String)>>,
    delivered: usize,
    faults: HashMap<String, VecDeque<BotFault>>,
    text_faults: Vec<(String, BotFault)>,
    files: HashMap<String, Vec<u8>>,
    blocked: Vec<i64>,
    confirmed: i64,
    webhook: String,
    /// Methods that this server does not know.
    unknown: Vec<String>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct BotCall {
    pub method: String,
    pub fields: Value,
    pub at: Instant,
}

/// A message from the bot in its current form.
#[derive(Clone, Debug, PartialEq)]
pub struct BotMessage {
    pub id: i64,
    pub chat: i64,
    /// The text without its formatting.
    pub text: String,
    pub buttons: Vec<(String, String)>,
    pub reply_to: Option<i64>,
    pub thread: Option<i64>,
    /// The name and the content of a file.
    pub file: Option<(String, Vec<u8>)>,
    pub edits: usize,
}

/// How the next request to a method fails.
#[derive(Clone, Debug)]
pub enum BotFault {
    /// `"ok": false` with this code and description.
    Refuse(u16, String),
    /// 429: retry after this many seconds.
    TooMany(u64),
    /// The request is processed, but the connection is cut before the answer.
    Cut,
    /// Something that is not JSON.
    Garbage,
}

impl TelegramServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        {
            let mut state = shared.state.lock().unwrap();
            state.next_update = 1000;
            state.next_message = 1;
        }
        Self { address: serve_platform(Arc::clone(&shared)), shared }
    }

    /// Returns `http://HOST:PORT`.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    /// Adds an update that is complete except for its number, and returns the number.
    pub fn push(&self, mut update: Value) -> i64 {
        let mut state = self.shared.state.lock().unwrap();
        let id = state.next_update;
        state.next_update += 1;
        if let Some(fields) = update.as_object_mut() {
            fields.insert("update_id".to_owned(), id.into());
        }
        state.updates.push_back((id, update));
        self.shared.changed.notify_all();
        id
    }

    /// Adds a direct message from a person, and returns the message's id.
    pub fn say(&self, person: i64, text: &str) -> i64 {
        let id = self.message_id();
        self.push(json!({"message": {
            "message_id": id, "date": unix_now(), "text": text,
            "from": {"id": person, "is_bot": false, "first_name": format!("Person{person}")},
            "chat": {"id": person, "type": "private", "first_name": format!("Person{person}")},
        }}));
        id
    }

    /// Presses a button on a message.
    pub fn press(&self, person: i64, message: &BotMessage, label: &str) -> i64 {
        let (_, value) = message.buttons.iter().find(|(text, _)| text == label).unwrap();
        let kind = if message.chat < 0 { "group" } else { "private" };
        self.push(json!({"callback_query": {
            "id": format!("press-{}", unix_now()), "data": value, "chat_instance": "1",
            "from": {"id": person, "is_bot": false, "first_name": format!("Person{person}")},
            "message": {
                "message_id": message.id, "date": unix_now(), "text": message.text,
                "chat": {"id": message.chat, "type": kind, "title": "t", "first_name": "f"},
            },
        }}))
    }

    /// Returns an id for a person's message.
    pub fn message_id(&self) -> i64 {
        let mut state = self.shared.state.lock().unwrap();
        state.next_message += 1;
        state.next_message
    }

    /// Delivers everything again at the next `times` polls, confirmed or not.
    pub fn repeat(&self, times: usize) {
        self.shared.state.lock().unwrap().repeats = times;
        self.shared.changed.notify_all();
    }

    pub fn fail_next(&self, method: &str, fault: BotFault) {
        let mut state = self.shared.state.lock().unwrap();
        state.faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// Fails the next message with this text.
    pub fn fail_text(&self, text: &str, fault: BotFault) {
        self.shared.state.lock().unwrap().text_faults.push((text.to_owned(), fault));
    }

    /// Makes a method unknown from now on, as on an older server.
    pub fn forget_method(&self, method: &str) {
        self.shared.state.lock().unwrap().unknown.push(method.to_owned());
    }

    /// Simulates that a person blocks the bot.
    pub fn block(&self, person: i64) {
        self.shared.state.lock().unwrap().blocked.push(person);
    }

    /// Adds a file that `getFile` finds.
    pub fn add_file(&self, id: &str, bytes: &[u8]) {
        self.shared.state.lock().unwrap().files.insert(id.to_owned(), bytes.to_vec());
    }

    pub fn calls(&self, method: &str) -> Vec<BotCall> {
        let state = self.shared.state.lock().unwrap();
        state.calls.iter().filter(|call| call.method == method).cloned().collect()
    }

    /// Returns the bot's messages in a chat, in their current form.
    pub fn messages(&self, chat: i64) -> Vec<BotMessage> {
        let state = self.shared.state.lock().unwrap();
        state.messages.values().filter(|one| one.chat == chat).cloned().collect()
    }

    /// Returns the buttons that a message had when it was sent.
    pub fn sent_buttons(&self, message: i64) -> Vec<(String, String)> {
        let state = self.shared.state.lock().unwrap();
        state.sent_buttons.get(&message).cloned().unwrap_or_default()
    }

    /// Returns how often updates were delivered. A repetition delivers all of them.
    pub fn delivered(&self) -> usize {
        self.shared.state.lock().unwrap().delivered
    }

    /// Returns the number below which every update was confirmed.
    pub fn confirmed(&self) -> i64 {
        self.shared.state.lock().unwrap().confirmed
    }
}

fn unix_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

impl PlatformFake for Shared {
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer> {
        answer(self, request)
    }
}

/// Returns the answer, or `None` if the connection is cut.
fn answer(shared: &Shared, request: &PlatformRequest) -> Option<PlatformAnswer> {
    let json = PlatformAnswer::json;
    let file = request.path.strip_prefix(&format!("/file/bot{TOKEN}/files/"));
    if let Some(id) = file {
        let state = shared.state.lock().unwrap();
        return Some(match state.files.get(id) {
            Some(bytes) => PlatformAnswer::bytes(200, "application/octet-stream", bytes.clone()),
            None => json(404, &refusal(404, "Not Found")),
        });
    }
    let Some(method) = request.path.strip_prefix(&format!("/bot{TOKEN}/")) else {
        return Some(json(401, &refusal(401, "Unauthorized")));
    };
    let mut state = shared.state.lock().unwrap();
    let call =
        BotCall { method: method.to_owned(), fields: request.fields.clone(), at: Instant::now() };
    state.calls.push(call);
    if state.unknown.iter().any(|unknown| unknown == method) {
        return Some(json(404, &refusal(404, "Not Found")));
    }
    let fault = state.faults.get_mut(method).and_then(VecDeque::pop_front);
    let text = request.fields["text"].as_str().unwrap_or_default();
    let by_text = state.text_faults.iter().position(|(wanted, _)| wanted == text);
    let by_text = by_text.map(|index| state.text_faults.remove(index).1);
    match fault.or(by_text) {
        Some(BotFault::Refuse(code, why)) => return Some(json(code, &refusal(code, &why))),
        Some(BotFault::TooMany(seconds)) => {
            let mut body = refusal(429, &format!("Too Many Requests: retry after {seconds}"));
            body["parameters"] = json!({"retry_after": seconds});
            return Some(json(429, &body));
        }
        Some(BotFault::Garbage) => {
            return Some(PlatformAnswer::bytes(502, "text/html", "<html>bad gateway"));
        }
        Some(BotFault::Cut) => {
            let _done = answer_method(&mut state, method, &request.fields, request.file.as_ref());
            return None;
        }
        None => {}
    }
    if method == "getUpdates" {
        drop(state);
        let updates = wait_for_updates(shared, &request.fields);
        return Some(json(200, &json!({"ok": true, "result": updates})));
    }
    Some(match answer_method(&mut state, method, &request.fields, request.file.as_ref()) {
        Ok(result) => json(200, &json!({"ok": true, "result": result})),
        Err((code, why)) => json(code, &refusal(code, &why)),
    })
}

fn refusal(code: u16, why: &str) -> Value {
    json!({"ok": false, "error_code": code, "description": why})
}

/// Holds the request until there is an update, or until it times out.
fn wait_for_updates(shared: &Shared, fields: &Value) -> Vec<Value> {
    let number = |name: &str| match &fields[name] {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    let offset = number("offset").unwrap_or_default();
    let wait = Duration::from_secs(number("timeout").unwrap_or_default().unsigned_abs());
    let deadline = Instant::now() + wait;
    let mut state = shared.state.lock().unwrap();
    state.confirmed = state.confirmed.max(offset);
    loop {
        let is_repeat = state.repeats > 0;
        let waiting: Vec<Value> = state
            .updates
            .iter()
            .filter(|(id, _)| is_repeat || *id >= offset)
            .map(|(_, update)| update.clone())
            .collect();
        if !waiting.is_empty() {
            state.repeats = state.repeats.saturating_sub(1);
            state.delivered += 1;
            return waiting;
        }
        let Some(left) = deadline.checked_duration_since(Instant::now()) else { return Vec::new() };
        state = shared.changed.wait_timeout(state, left).unwrap().0;
    }
}
