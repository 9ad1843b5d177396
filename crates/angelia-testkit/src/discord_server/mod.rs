//! A fake Discord server on loopback: the gateway and the REST API, with the refusals and limits of the real
//! ones. It is verified with the official Python library before our adapter is tested against it.
//!
//! - `gateway`: sessions with numbered events, heartbeats, and what is resent after a break.
//! - `rest`: the REST API; `limits`: its rate limits.
//! - `markdown`: parses the formatting of a text like the clients.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gateway;
mod limits;
mod markdown;
mod rest;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

pub use self::{gateway::GatewayFault, markdown::visible_text};
use self::{gateway::GatewayState, limits::RequestLimits};
use crate::platform_server::{
    ClientSocket, PlatformAnswer, PlatformFake, PlatformRequest, SocketFrame, serve_platform,
};

/// The bot's token.
pub const TOKEN: &str = "MTIzNDU2.fake.token_of-the-fake";
pub const BOT_ID: &str = "123456";
pub const BOT_NAME: &str = "fake_bot";

/// A Discord server ("guild") with a text channel.
pub const GUILD: &str = "3000";
pub const CHANNEL: &str = "4000";

/// The flag of an application that may read messages.
const READS_MESSAGES: u64 = 1 << 19;

/// A fake server, which records everything that is sent to it.
#[derive(Clone, Debug)]
pub struct DiscordServer {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ServerState>,
}

#[derive(Debug)]
struct ServerState {
    /// `http://HOST:PORT`.
    address: String,
    gateway: GatewayState,
    limits: RequestLimits,
    calls: Vec<RestCall>,
    messages: BTreeMap<u64, BotMessage>,
    /// The buttons that a message had when it was sent.
    sent_buttons: HashMap<u64, Vec<(String, String)>>,
    /// The messages that were sent with a nonce.
    nonces: HashMap<(String, String), u64>,
    /// The parents of threads.
    threads: HashMap<String, String>,
    /// The direct channels of people who accept no messages.
    blocked: Vec<String>,
    faults: HashMap<&'static str, VecDeque<RestFault>>,
    files: HashMap<String, Vec<u8>>,
    /// The interactions that wait for an answer, by `ID/TOKEN`.
    interactions: HashMap<String, bool>,
    flags: u64,
    interactions_url: Option<String>,
    servers: usize,
    sessions_left: u64,
    counter: u64,
}

impl Default for ServerState {
    fn default() -> Self {
        Self {
            address: String::new(),
            gateway: GatewayState::default(),
            limits: RequestLimits::default(),
            calls: Vec::new(),
            messages: BTreeMap::new(),
            sent_buttons: HashMap::new(),
            nonces: HashMap::new(),
            threads: HashMap::new(),
            blocked: Vec::new(),
            faults: HashMap::new(),
            files: HashMap::new(),
            interactions: HashMap::new(),
            flags: READS_MESSAGES,
            interactions_url: None,
            servers: 1,
            sessions_left: 1000,
            counter: 0,
        }
    }
}

/// A request to the REST API.
#[derive(Clone, Debug)]
pub struct RestCall {
    /// The method and the path without ids, such as `POST messages`.
    pub route: &'static str,
    pub path: String,
    pub fields: Value,
    pub status: u16,
    pub at: Instant,
}

/// A message from the bot in its current form.
#[derive(Clone, Debug, PartialEq)]
pub struct BotMessage {
    pub id: u64,
    pub channel: String,
    /// The text as sent.
    pub content: String,
    /// The text without its formatting.
    pub text: String,
    pub buttons: Vec<(String, String)>,
    pub reply_to: Option<String>,
    /// The name and the content of a file.
    pub file: Option<(String, Vec<u8>)>,
    pub edits: usize,
}

/// How the next request to a route fails.
#[derive(Clone, Debug)]
pub enum RestFault {
    /// This status with this code and message.
    Refuse(u16, u64, &'static str),
    /// 429: retry after this many seconds. `true` if the limit applies to all requests.
    TooMany(f64, bool),
    /// The request is processed, but the connection is cut before the answer.
    Cut,
    /// Something that is not JSON.
    Garbage,
}

impl DiscordServer {
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

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.shared.state.lock().unwrap()
    }

    /// Returns the channel for direct messages with a person.
    pub fn direct_channel(person: u64) -> String {
        format!("9{person}")
    }

    /// Returns a new id.
    pub fn fresh_id(&self) -> u64 {
        self.state().fresh_id()
    }

    /// Sends a dispatch to every session.
    pub fn push(&self, name: &str, data: &Value) {
        self.state().gateway.push(name, data);
    }

    /// Simulates a message from a person to the bot, and returns its id.
    pub fn say(&self, person: u64, text: &str) -> u64 {
        self.write(person, &Self::direct_channel(person), &json!({"content": text}))
    }

    /// Simulates a message from a person in a channel of the server. `extra` contains further fields.
    pub fn say_in(&self, channel: &str, person: u64, extra: &Value) -> u64 {
        let mut fields = json!({"guild_id": GUILD, "member": member(None)});
        fields.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        self.write(person, channel, &fields)
    }

    fn write(&self, person: u64, channel: &str, extra: &Value) -> u64 {
        let id = self.fresh_id();
        let mut message = person_message(id, person, channel);
        message.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        self.push("MESSAGE_CREATE", &message);
        id
    }

    /// Simulates that a person edits a direct message.
    pub fn edit(&self, person: u64, id: u64, text: &str) {
        let mut message = person_message(id, person, &Self::direct_channel(person));
        message["content"] = text.into();
        message["edited_timestamp"] = timestamp().into();
        self.push("MESSAGE_UPDATE", &message);
    }

    /// Simulates that a person deletes a direct message.
    pub fn delete(&self, person: u64, id: u64) {
        let channel = Self::direct_channel(person);
        self.push("MESSAGE_DELETE", &json!({"id": id.to_string(), "channel_id": channel}));
    }

    /// Simulates a file from a person.
    pub fn send_file(&self, person: u64, name: &str, bytes: &[u8]) -> u64 {
        let (id, url) = {
            let mut state = self.state();
            let id = state.fresh_id();
            let path = format!("/attachments/{id}/{name}");
            state.files.insert(path.clone(), bytes.to_vec());
            (id, format!("{}{path}?ex=1&hm=2", state.address))
        };
        let attachment = json!({
            "id": id.to_string(), "filename": name, "size": bytes.len(), "url": url,
            "proxy_url": url, "content_type": "text/plain; charset=utf-8",
        });
        let channel = Self::direct_channel(person);
        self.write(person, &channel, &json!({"content": "", "attachments": [attachment]}))
    }

    /// Simulates that a person presses a button on a message.
    pub fn press(&self, person: u64, message: &BotMessage, label: &str) {
        let (_, value) = message.buttons.iter().find(|(text, _)| text == label).unwrap();
        let data = json!({"custom_id": value, "component_type": 2});
        let pressed = self.state().describe(message);
        self.interact(3, person, &message.channel, &data, Some(&pressed));
    }

    /// Simulates that a person uses a command in direct messages.
    pub fn use_command(&self, person: u64, name: &str, words: &str) {
        let options = match words {
            "" => json!([]),
            words => json!([{"type": 3, "name": "text", "value": words}]),
        };
        let data = json!({"id": "77", "name": name, "type": 1, "options": options});
        self.interact(2, person, &Self::direct_channel(person), &data, None);
    }

    fn interact(
        &self,
        kind: u32,
        person: u64,
        channel: &str,
        data: &Value,
        message: Option<&Value>,
    ) {
        let mut state = self.state();
        let id = state.fresh_id();
        let token = format!("interaction-token-{id}");
        state.interactions.insert(format!("{id}/{token}"), false);
        let is_direct = channel.starts_with('9');
        let mut fields = json!({
            "id": id.to_string(), "application_id": BOT_ID, "type": kind, "token": token,
            "version": 1, "data": data, "channel_id": channel, "attachment_size_limit": 10_485_760,
            "channel": {"id": channel, "type": i32::from(is_direct)}, "entitlements": [],
            "authorizing_integration_owners": {}, "context": i32::from(is_direct),
            "locale": "en-US", "app_permissions": "0",
        });
        if let Some(message) = message {
            fields["message"] = message.clone();
        }
        if is_direct {
            fields["user"] = user(person);
        } else {
            fields["guild_id"] = GUILD.into();
            fields["member"] = member(Some(person));
        }
        state.gateway.push("INTERACTION_CREATE", &fields);
    }

    /// Adds a thread to a channel.
    pub fn add_thread(&self, parent: &str) -> String {
        let mut state = self.state();
        let id = state.fresh_id().to_string();
        state.threads.insert(id.clone(), parent.to_owned());
        let thread = state.describe_channel(&id);
        state.gateway.push("THREAD_CREATE", &thread);
        id
    }

    /// Sends the last event `times` more times.
    pub fn repeat(&self, times: usize) {
        self.state().gateway.repeat(times);
    }

    /// Returns how many events were sent.
    pub fn delivered(&self) -> usize {
        self.state().gateway.delivered
    }

    /// Makes the gateway fail from now on, or once.
    pub fn fail_gateway(&self, fault: GatewayFault) {
        self.state().gateway.fail(fault);
    }

    /// Returns the frames with this opcode that clients have sent.
    pub fn frames(&self, op: u64) -> Vec<Value> {
        let state = self.state();
        let frames = state.gateway.frames.iter().filter(|frame| frame["op"] == op);
        frames.map(|frame| frame["d"].clone()).collect()
    }

    /// Sends something other than an event to every connection.
    pub fn send_frame(&self, text: &str) {
        self.state().gateway.send_frame(text);
    }

    pub fn set_heartbeat_interval(&self, interval: Duration) {
        self.state().gateway.heartbeat_interval = interval;
    }

    pub fn fail_next(&self, route: &'static str, fault: RestFault) {
        self.state().faults.entry(route).or_default().push_back(fault);
    }

    /// Simulates that a person accepts no more messages from the bot.
    pub fn block(&self, person: u64) {
        self.state().blocked.push(Self::direct_channel(person));
    }

    /// Simulates that the owner has not allowed the bot to read messages.
    pub fn forbid_reading(&self) {
        self.state().flags = 0;
    }

    /// Simulates that the owner has another program handle buttons.
    pub fn divert_interactions(&self) {
        self.state().interactions_url = Some("https://example.org/buttons".to_owned());
    }

    /// Sets the number of servers that the bot is in.
    pub fn set_servers(&self, count: usize) {
        self.state().servers = count;
    }

    pub fn set_sessions_left(&self, count: u64) {
        self.state().sessions_left = count;
    }

    pub fn calls(&self, route: &str) -> Vec<RestCall> {
        self.state().calls.iter().filter(|call| call.route == route).cloned().collect()
    }

    /// Returns the bot's messages in a channel, in their current form.
    pub fn messages(&self, channel: &str) -> Vec<BotMessage> {
        let state = self.state();
        state.messages.values().filter(|one| one.channel == channel).cloned().collect()
    }

    /// Returns the buttons that a message had when it was sent.
    pub fn sent_buttons(&self, message: u64) -> Vec<(String, String)> {
        self.state().sent_buttons.get(&message).cloned().unwrap_or_default()
    }
}

impl ServerState {
    /// Returns a new id. Ids begin with the milliseconds since 2015 and increase.
    fn fresh_id(&mut self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let milliseconds = u64::try_from(since.as_millis()).unwrap() - 1_420_070_400_000;
        self.counter += 1;
        (milliseconds << 22) + self.counter
    }
}

/// Returns a time in Discord's format. Only the part that makes it unique is correct.
fn timestamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seconds = since.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let (seconds, micros) = (seconds % 60, since.subsec_micros());
    format!("2026-11-16T{hours:02}:{minutes:02}:{seconds:02}.{micros:06}+00:00")
}

fn user(person: u64) -> Value {
    json!({
        "id": person.to_string(), "username": format!("person{person}"), "discriminator": "0",
        "global_name": format!("Person{person}"), "avatar": null,
    })
}

/// Returns a member. In interactions, members include their user.
fn member(person: Option<u64>) -> Value {
    let mut member = json!({
        "roles": ["6000"], "joined_at": "2020-01-01T00:00:00+00:00", "deaf": false, "mute": false,
        "flags": 0, "permissions": "0",
    });
    if let Some(person) = person {
        member["user"] = user(person);
    }
    member
}

fn person_message(id: u64, person: u64, channel: &str) -> Value {
    json!({
        "id": id.to_string(), "channel_id": channel, "author": user(person), "content": "",
        "timestamp": timestamp(), "edited_timestamp": null, "tts": false, "mention_everyone": false,
        "mentions": [], "mention_roles": [], "attachments": [], "embeds": [], "pinned": false,
        "type": 0, "components": [],
    })
}

impl PlatformFake for Shared {
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer> {
        rest::answer(&mut self.state.lock().unwrap(), request)
    }

    fn open_socket(&self, request: &PlatformRequest) -> Result<(), PlatformAnswer> {
        // The library requests `/gw/` although it was told `/gw`.
        let is_gateway = request.path.trim_end_matches('/') == "/gw";
        if is_gateway { Ok(()) } else { Err(PlatformAnswer::json(404, &Value::Null)) }
    }

    fn socket_opened(&self, request: &PlatformRequest, socket: &ClientSocket) {
        self.state.lock().unwrap().gateway.greet(request, socket);
    }

    fn frame(&self, socket: &ClientSocket, frame: SocketFrame) {
        gateway::take_frame(&mut self.state.lock().unwrap(), socket, &frame);
    }

    fn socket_closed(&self, socket: &ClientSocket) {
        self.state.lock().unwrap().gateway.forget(socket);
    }
}
