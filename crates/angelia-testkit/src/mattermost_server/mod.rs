//! A fake Mattermost server on loopback: its WebSocket, and the parts of the REST API that bots use, with
//! their refusals. It is verified with mattermostdriver before our adapter is tested against it.
//!
//! - `rest`: the REST API; `people`: what people do.
//! - `markdown`: parses the formatting of a post like clients.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod markdown;
mod people;
mod rest;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub use self::markdown::visible_text;
use crate::platform_server::{
    ClientSocket, PlatformAnswer, PlatformFake, PlatformRequest, SocketFrame, serve_platform,
};

/// The bot's token.
pub const TOKEN: &str = "tokenofthefakebot123456789";
pub const BOT_NAME: &str = "angelia-bot";

/// A fake server, which records everything that is sent to it.
#[derive(Clone, Debug)]
pub struct MattermostServer {
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
    /// A clock that never shows the same time twice.
    now: i64,
    channels: BTreeMap<String, FakeChannel>,
    posts: BTreeMap<String, Value>,
    /// The ids of the posts, in order.
    order: Vec<String>,
    reactions: Vec<(String, String, String)>,
    files: HashMap<String, (String, Vec<u8>)>,
    sockets: HashMap<u64, OpenSocket>,
    calls: Vec<MattermostCall>,
    faults: HashMap<String, VecDeque<MattermostFault>>,
    /// The newest event caused by a person.
    last_event: Option<(String, Value)>,
    delivered: usize,
    greetings: usize,
    has_no_team: bool,
}

#[derive(Debug)]
struct FakeChannel {
    kind: String,
    members: Vec<String>,
    last_post_at: i64,
}

/// A client with an open socket.
#[derive(Debug)]
struct OpenSocket {
    socket: ClientSocket,
    /// The number of the next event; `None` until the token has been accepted.
    next_number: Option<u64>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct MattermostCall {
    /// The method and the action, such as `POST posts`.
    pub name: String,
    pub fields: Value,
    pub status: u16,
    pub at: Instant,
}

/// How the next request with a given name fails.
#[derive(Clone, Debug)]
pub enum MattermostFault {
    /// A status with an error message.
    Refuse(u16, &'static str),
    /// 429: retry after this many seconds.
    TooMany(u64),
    /// The request is processed, but the connection is cut before the answer.
    Cut,
    /// Something that is not JSON.
    Garbage,
}

/// A post by the bot in its current form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotPost {
    pub id: String,
    /// The text without its formatting.
    pub text: String,
    pub root: String,
    /// The bot's own emoji reactions.
    pub reactions: Vec<String>,
    pub file: Option<(String, Vec<u8>)>,
    pub edits: u64,
}

/// Creates an id of 26 characters, like the server's ids.
pub fn id_of(name: &str) -> String {
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{:x<26}", letters.to_ascii_lowercase())
}

impl MattermostServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        shared.state.lock().unwrap().now = i64::try_from(since.as_millis()).unwrap();
        Self { address: serve_platform(Arc::clone(&shared)), shared }
    }

    /// Returns `http://HOST:PORT`.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    /// Returns the direct channel with a person, creating it if necessary.
    pub fn direct_channel(&self, person: &str) -> String {
        self.add_channel(&format!("direct{person}"), "D", &[person])
    }

    /// Creates a channel with the bot and these people, and returns its id.
    pub fn add_channel(&self, name: &str, kind: &str, people: &[&str]) -> String {
        let id = id_of(name);
        let members = people.iter().map(|name| id_of(name)).chain([id_of(BOT_NAME)]).collect();
        let channel = FakeChannel { kind: kind.to_owned(), members, last_post_at: 0 };
        self.state().channels.entry(id.clone()).or_insert(channel);
        id
    }

    /// Removes the bot from a channel.
    pub fn remove_bot(&self, channel: &str) {
        let mut state = self.state();
        let channel = state.channels.get_mut(channel).unwrap();
        channel.members.retain(|member| *member != id_of(BOT_NAME));
    }

    /// Removes the bot from all teams.
    pub fn leave_teams(&self) {
        self.state().has_no_team = true;
    }

    pub fn add_file(&self, name: &str, bytes: &[u8]) -> String {
        let id = id_of(&format!("file{name}"));
        self.state().files.insert(id.clone(), (name.to_owned(), bytes.to_vec()));
        id
    }

    pub fn fail_next(&self, name: &str, fault: MattermostFault) {
        self.state().faults.entry(name.to_owned()).or_default().push_back(fault);
    }

    /// Cuts every socket.
    pub fn cut_sockets(&self) {
        for (_, open) in self.state().sockets.drain() {
            open.socket.cut();
        }
    }

    /// Sends a text to every client with an open socket.
    pub fn send_frame(&self, text: &str) {
        for open in self.state().sockets.values() {
            open.socket.send_text(text);
        }
    }

    /// Leaves a gap in the numbers of the next events.
    pub fn skip_number(&self) {
        for open in self.state().sockets.values_mut() {
            open.next_number = open.next_number.map(|number| number + 1);
        }
    }

    /// Delivers the newest event caused by a person `times` more times.
    pub fn repeat(&self, times: usize) {
        let mut state = self.state();
        for _ in 0..times {
            if let Some((name, data)) = state.last_event.clone() {
                state.send_event(&name, &data);
            }
        }
    }

    pub fn calls(&self, name: &str) -> Vec<MattermostCall> {
        self.state().calls.iter().filter(|call| call.name == name).cloned().collect()
    }

    /// Returns how many events were delivered.
    pub fn delivered(&self) -> usize {
        self.state().delivered
    }

    /// Returns how many sockets are ready now.
    pub fn ready_sockets(&self) -> usize {
        self.state().sockets.values().filter(|open| open.next_number.is_some()).count()
    }

    /// Waits until a client was greeted, because earlier events are history.
    pub fn wait_for_client(&self) {
        let waiting = |state: &mut ServerState| state.greetings == 0;
        let timeout = Duration::from_secs(20);
        let waited = self.shared.changed.wait_timeout_while(self.state(), timeout, waiting);
        assert!(!waited.unwrap().1.timed_out(), "nobody connects");
    }

    /// Returns the bot's posts in a channel, in their current form.
    pub fn messages(&self, channel: &str) -> Vec<BotPost> {
        let state = self.state();
        let posts = state.order.iter().filter_map(|id| state.posts.get(id));
        let own = posts.filter(|post| {
            post["channel_id"] == channel && post["user_id"] == id_of(BOT_NAME).as_str()
        });
        own.map(|post| state.describe(post)).collect()
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.shared.state.lock().unwrap()
    }
}

impl BotPost {
    /// Returns the lines of the text that begin with a number emoji, as people read them: the words after the
    /// emoji. Empty until the bot has reacted with all of these emojis, because there is nothing to press
    /// before.
    pub fn choices(&self) -> Vec<String> {
        let lines = self.text.lines().filter_map(|line| {
            let (key, words) = line.split_once('\u{20e3}')?;
            key.starts_with(|c: char| c.is_ascii_digit()).then(|| words.trim().to_owned())
        });
        let lines: Vec<String> = lines.collect();
        if lines.len() <= self.reactions.len() { lines } else { Vec::new() }
    }
}

impl ServerState {
    fn tick(&mut self) -> i64 {
        self.now += 1;
        self.now
    }

    /// Sends an event to every client whose token was accepted.
    fn send_event(&mut self, name: &str, data: &Value) {
        for open in self.sockets.values_mut() {
            let Some(number) = open.next_number else { continue };
            open.next_number = Some(number + 1);
            open.socket.send_json(&json!({
                "event": name, "data": data, "seq": number,
                "broadcast": {"omit_users": null, "user_id": "", "channel_id": "", "team_id": ""},
            }));
            self.delivered += 1;
        }
    }

    /// Adds a post, and notifies every client.
    fn add_post(&mut self, user: &str, fields: &Value) -> Value {
        let at = self.tick();
        let id = id_of(&format!("post{}", self.order.len()));
        let text = |name: &str| fields[name].as_str().unwrap_or_default();
        let file_ids = fields["file_ids"].as_array().cloned().unwrap_or_default();
        let files: Vec<Value> = file_ids
            .iter()
            .filter_map(|id| {
                let (name, bytes) = self.files.get(id.as_str()?)?;
                Some(json!({
                    "id": id, "name": name, "size": bytes.len(), "mime_type": "text/plain",
                }))
            })
            .collect();
        let props = if fields["props"].is_object() { fields["props"].clone() } else { json!({}) };
        let post = json!({
            "id": id, "create_at": at, "update_at": at, "edit_at": 0, "delete_at": 0,
            "user_id": user, "channel_id": text("channel_id"), "root_id": text("root_id"),
            "message": text("message"), "type": text("type"), "props": props, "hashtags": "",
            "pending_post_id": text("pending_post_id"), "file_ids": file_ids,
            "metadata": {"files": files},
        });
        self.order.push(id.clone());
        self.posts.insert(id, post.clone());
        let kind = self.channels.get_mut(text("channel_id")).map(|channel| {
            channel.last_post_at = at;
            channel.kind.clone()
        });
        let named = text("message").contains(&format!("@{BOT_NAME}"));
        let mentions = if named { json!([id_of(BOT_NAME)]) } else { json!([]) };
        let data = json!({
            "channel_type": kind, "post": post.to_string(), "mentions": mentions.to_string(),
            "sender_name": format!("@{user}"), "channel_name": "c", "team_id": "",
        });
        self.send_event("posted", &data);
        if user != id_of(BOT_NAME) {
            self.last_event = Some(("posted".to_owned(), data));
        }
        post
    }

    /// Changes a post, and notifies every client.
    fn change_post(&mut self, id: &str, event: &str, change: impl Fn(&mut Value, i64)) -> Value {
        let at = self.tick();
        let post = self.posts.get_mut(id).unwrap();
        change(post, at);
        post["update_at"] = at.into();
        let post = post.clone();
        self.send_event(event, &json!({"post": post.to_string()}));
        post
    }

    fn describe(&self, post: &Value) -> BotPost {
        let id = post["id"].as_str().unwrap_or_default();
        let own =
            self.reactions.iter().filter(|(user, of, _)| *user == id_of(BOT_NAME) && of == id);
        let file = post["file_ids"][0].as_str().and_then(|id| self.files.get(id));
        BotPost {
            id: id.to_owned(),
            text: visible_text(post["message"].as_str().unwrap_or_default()),
            root: post["root_id"].as_str().unwrap_or_default().to_owned(),
            reactions: own.map(|(_, _, emoji)| emoji.clone()).collect(),
            file: file.cloned(),
            edits: post["edits"].as_u64().unwrap_or_default(),
        }
    }
}

impl PlatformFake for Shared {
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer> {
        let name = rest::name_of(request);
        let mut state = self.state.lock().unwrap();
        let fault = state.faults.get_mut(&name).and_then(VecDeque::pop_front);
        let answer = match fault {
            Some(MattermostFault::Refuse(status, why)) => Some(rest::refusal(status, why)),
            Some(MattermostFault::TooMany(seconds)) => {
                let answer = rest::refusal(429, "limit exceeded");
                Some(answer.with_header("retry-after", &seconds.to_string()))
            }
            Some(MattermostFault::Garbage) => {
                Some(PlatformAnswer::bytes(502, "text/html", "<html>bad gateway"))
            }
            Some(MattermostFault::Cut) => {
                let _done = rest::answer(&mut state, &name, request);
                None
            }
            None => Some(rest::answer(&mut state, &name, request)),
        };
        let (fields, at) = (request.fields.clone(), Instant::now());
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        state.calls.push(MattermostCall { name, fields, status, at });
        answer
    }

    fn open_socket(&self, request: &PlatformRequest) -> Result<(), PlatformAnswer> {
        match request.path.as_str() {
            "/api/v4/websocket" => Ok(()),
            _ => Err(rest::refusal(404, "not found")),
        }
    }

    fn socket_opened(&self, _request: &PlatformRequest, socket: &ClientSocket) {
        let open = OpenSocket { socket: socket.clone(), next_number: None };
        self.state.lock().unwrap().sockets.insert(socket.id(), open);
    }

    fn frame(&self, socket: &ClientSocket, frame: SocketFrame) {
        let frame = frame.json().unwrap_or_default();
        if frame["action"] != "authentication_challenge" {
            return;
        }
        let mut state = self.state.lock().unwrap();
        if frame["data"]["token"] != TOKEN {
            socket.send_json(&json!({
                "status": "FAIL", "seq_reply": frame["seq"],
                "error": {"id": "api.web_socket_router.bad_seq", "message": "Invalid token"},
            }));
            return;
        }
        socket.send_json(&json!({
            "event": "hello", "data": {"server_version": "10.5.0"}, "broadcast": {}, "seq": 0,
        }));
        socket.send_json(&json!({"status": "OK", "seq_reply": frame["seq"]}));
        state.greetings += 1;
        if let Some(open) = state.sockets.get_mut(&socket.id()) {
            open.next_number = Some(1);
        }
        self.changed.notify_all();
    }

    fn socket_closed(&self, socket: &ClientSocket) {
        self.state.lock().unwrap().sockets.remove(&socket.id());
    }
}
