//! A fake Matrix homeserver on loopback: the parts of the client-server API that bots use, with Synapse's
//! refusals. It is verified with matrix-nio before our adapter is tested against it.
//!
//! - `requests`: the requests, and how they are refused; `sync`: the long poll.
//! - `rooms`: rooms with their members and events.
//! - `html`: parses the formatting of a message like clients.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod html;
mod requests;
mod rooms;
mod sync;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub use self::{html::visible_text, rooms::ShownEvent};
use self::{
    requests::{Outcome, answer_request},
    rooms::Room,
};
use crate::platform_server::{PlatformAnswer, PlatformFake, PlatformRequest, serve_platform};

/// The bot's access token.
pub const TOKEN: &str = "syt_YW5nZWxpYQ_TestTokenOfTheFake_0aBcDe";
/// The bot, its name, and its server.
pub const BOT: &str = "@angelia:test.example";
pub const BOT_NAME: &str = "Angelia Bot";
pub const SERVER_NAME: &str = "test.example";

/// A fake server, which records everything that is sent to it.
#[derive(Clone, Debug)]
pub struct MatrixServer {
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
    rooms: BTreeMap<String, Room>,
    /// The position of the newest event in all rooms.
    position: u64,
    /// The events created by requests with a transaction id, by path.
    transactions: HashMap<String, String>,
    media: HashMap<String, (String, Vec<u8>)>,
    calls: Vec<MatrixCall>,
    faults: HashMap<String, VecDeque<MatrixFault>>,
    /// How many more times everything is delivered, even if it was confirmed.
    repeats: usize,
    delivered: usize,
    /// The position up to which events were confirmed.
    confirmed: u64,
    /// Number of first polls.
    first_polls: usize,
    /// Synapse's rate-limit bucket for the events of one person.
    bucket: Option<Bucket>,
    has_old_media: bool,
}

/// A bucket that fills at `rate` per second.
#[derive(Debug)]
struct Bucket {
    size: f64,
    rate: f64,
    level: f64,
    filled_at: Instant,
}

/// A request.
#[derive(Clone, Debug)]
pub struct MatrixCall {
    /// The method and the action, such as `PUT send`.
    pub name: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub fields: Value,
    pub status: u16,
    pub at: Instant,
}

/// How the next request with a given name fails.
#[derive(Clone, Debug)]
pub enum MatrixFault {
    /// A status with an error code and its message.
    Refuse(u16, &'static str, &'static str),
    /// 429: retry after this many milliseconds.
    TooMany(u64),
    /// The request is processed, but the connection is cut before the answer.
    Cut,
    /// Something that is not JSON.
    Garbage,
}

impl MatrixServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        Self { address: serve_platform(Arc::clone(&shared)), shared }
    }

    /// Returns `http://HOST:PORT`.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    /// Returns the id of a person.
    pub fn person(name: &str) -> String {
        format!("@{name}:{SERVER_NAME}")
    }

    /// Returns the room that a person shares with the bot alone, creating it if necessary.
    pub fn direct_room(&self, person: &str) -> String {
        let room = format!("!direct-{person}:{SERVER_NAME}");
        let mut state = self.state();
        if !state.rooms.contains_key(&room) {
            let person = Self::person(person);
            state.add_room(&room, &[BOT, &person]);
        }
        room
    }

    /// Creates a room with the bot and these people, and returns its id.
    pub fn add_room(&self, name: &str, people: &[&str]) -> String {
        let room = format!("!{name}:{SERVER_NAME}");
        let people: Vec<String> = people.iter().map(|name| Self::person(name)).collect();
        let members: Vec<&str> =
            std::iter::once(BOT).chain(people.iter().map(|id| &**id)).collect();
        self.state().add_room(&room, &members);
        self.shared.changed.notify_all();
        room
    }

    /// Simulates that a person creates a room and invites the bot.
    pub fn invite(&self, name: &str, person: &str) -> String {
        let room = format!("!{name}:{SERVER_NAME}");
        let person = Self::person(person);
        let mut state = self.state();
        state.add_room(&room, &[&person]);
        state.set_member(&room, &person, BOT, "invite");
        self.shared.changed.notify_all();
        room
    }

    /// Simulates that a person joins a room.
    pub fn join(&self, room: &str, person: &str) {
        let person = Self::person(person);
        self.state().set_member(room, &person, &person, "join");
        self.shared.changed.notify_all();
    }

    /// Simulates that a person removes the bot from a room.
    pub fn kick(&self, room: &str, person: &str) {
        self.state().set_member(room, &Self::person(person), BOT, "leave");
        self.shared.changed.notify_all();
    }

    /// Makes a room encrypted.
    pub fn encrypt(&self, room: &str, person: &str) {
        let content = json!({"algorithm": "m.megolm.v1.aes-sha2"});
        let mut state = self.state();
        state.add_event(room, &Self::person(person), "m.room.encryption", content, Some(""));
        state.rooms.get_mut(room).unwrap().is_encrypted = true;
        self.shared.changed.notify_all();
    }

    /// Simulates a direct message from a person to the bot. Returns the event's id.
    pub fn say(&self, person: &str, text: &str) -> String {
        let room = self.direct_room(person);
        self.say_in(&room, person, json!({"msgtype": "m.text", "body": text}))
    }

    /// Simulates a message with this content from a person. Returns the event's id.
    pub fn say_in(&self, room: &str, person: &str, content: Value) -> String {
        self.push(room, person, "m.room.message", content)
    }

    /// Simulates an arbitrary event from a person.
    pub fn push(&self, room: &str, person: &str, kind: &str, content: Value) -> String {
        let id = self.state().add_event(room, &Self::person(person), kind, content, None);
        self.shared.changed.notify_all();
        id
    }

    /// Simulates that a person edits a message.
    pub fn edit(&self, room: &str, person: &str, event: &str, text: &str) -> String {
        let content = json!({
            "msgtype": "m.text", "body": format!("* {text}"),
            "m.new_content": {"msgtype": "m.text", "body": text},
            "m.relates_to": {"rel_type": "m.replace", "event_id": event},
        });
        self.say_in(room, person, content)
    }

    /// Simulates a reaction of a person to an event.
    pub fn react(&self, room: &str, person: &str, event: &str, key: &str) -> String {
        let relation = json!({"rel_type": "m.annotation", "event_id": event, "key": key});
        self.push(room, person, "m.reaction", json!({"m.relates_to": relation}))
    }

    /// Simulates that a person redacts an event.
    pub fn redact(&self, room: &str, person: &str, event: &str) {
        self.state().redact(room, &Self::person(person), event);
        self.shared.changed.notify_all();
    }

    /// Adds a file, and returns its address.
    pub fn add_media(&self, id: &str, kind: &str, bytes: &[u8]) -> String {
        self.state().media.insert(id.to_owned(), (kind.to_owned(), bytes.to_vec()));
        format!("mxc://{SERVER_NAME}/{id}")
    }

    /// Returns the content of a file at an address.
    pub fn media(&self, address: &str) -> Option<Vec<u8>> {
        let id = address.rsplit('/').next()?;
        self.state().media.get(id).map(|(_, bytes)| bytes.clone())
    }

    /// Makes this an old server, whose files need no authentication.
    pub fn use_old_media(&self) {
        self.state().has_old_media = true;
    }

    /// Limits a person to `burst` events at once, and `rate` per second, from now on.
    pub fn limit_events(&self, burst: f64, rate: f64) {
        let bucket = Bucket { size: burst, rate, level: burst, filled_at: Instant::now() };
        self.state().bucket = Some(bucket);
    }

    pub fn fail_next(&self, name: &str, fault: MatrixFault) {
        self.state().faults.entry(name.to_owned()).or_default().push_back(fault);
    }

    /// Delivers everything again at the next `times` polls, confirmed or not.
    pub fn repeat(&self, times: usize) {
        self.state().repeats = times;
        self.shared.changed.notify_all();
    }

    pub fn calls(&self, name: &str) -> Vec<MatrixCall> {
        self.state().calls.iter().filter(|call| call.name == name).cloned().collect()
    }

    /// Returns the bot's messages in a room, in their current form.
    pub fn messages(&self, room: &str) -> Vec<ShownEvent> {
        self.state().rooms.get(room).map(Room::bot_messages).unwrap_or_default()
    }

    /// Returns a message from the bot as it was sent.
    pub fn first_version(&self, room: &str, event: &str) -> Option<ShownEvent> {
        self.state().rooms.get(room)?.first_version(event)
    }

    /// Returns the events of a room.
    pub fn events(&self, room: &str) -> Vec<Value> {
        let state = self.state();
        state
            .rooms
            .get(room)
            .map(|room| room.events.iter().map(|(_, event)| event.clone()).collect())
            .unwrap_or_default()
    }

    /// Returns how often events were delivered. A repetition delivers all of them.
    pub fn delivered(&self) -> usize {
        self.state().delivered
    }

    /// Returns whether everything was confirmed.
    pub fn is_confirmed(&self) -> bool {
        let state = self.state();
        state.confirmed >= state.position
    }

    /// Waits until a client has polled for the first time, because earlier events are history.
    pub fn wait_for_first_poll(&self) {
        let state = self.state();
        let timeout = Duration::from_secs(20);
        let waiting = |state: &mut ServerState| state.first_polls == 0;
        let (_state, waited) =
            self.shared.changed.wait_timeout_while(state, timeout, waiting).unwrap();
        assert!(!waited.timed_out(), "nobody polls");
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.shared.state.lock().unwrap()
    }
}

impl Bucket {
    /// Takes one event from the bucket, or returns the milliseconds until one is available.
    fn take(&mut self) -> Result<(), u64> {
        let passed = self.filled_at.elapsed().as_secs_f64();
        self.filled_at = Instant::now();
        self.level = passed.mul_add(self.rate, self.level).min(self.size);
        if self.level >= 1.0 {
            self.level -= 1.0;
            return Ok(());
        }
        let wait = Duration::from_secs_f64((1.0 - self.level) / self.rate);
        Err(u64::try_from(wait.as_millis()).unwrap() + 1)
    }
}

impl PlatformFake for Shared {
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer> {
        let name = requests::name_of(request);
        let mut state = self.state.lock().unwrap();
        let fault = state.faults.get_mut(&name).and_then(VecDeque::pop_front);
        let outcome = match fault {
            Some(MatrixFault::Refuse(status, code, why)) => Outcome::refusal(status, code, why),
            Some(MatrixFault::TooMany(wait)) => Outcome::limited(wait),
            Some(MatrixFault::Garbage) => Outcome::garbage(),
            fault => {
                let is_poll = name == "GET sync";
                let is_known = requests::check_token(request).is_ok();
                let answered = if is_poll && is_known && fault.is_none() {
                    drop(state);
                    let answered = sync::poll(self, request);
                    state = self.state.lock().unwrap();
                    answered
                } else {
                    answer_request(&mut state, &name, request)
                };
                self.changed.notify_all();
                match fault {
                    Some(_cut) => Outcome::cut(),
                    None => answered,
                }
            }
        };
        state.calls.push(MatrixCall {
            name,
            path: request.path.clone(),
            query: request.query.clone(),
            fields: request.fields.clone(),
            status: outcome.status,
            at: Instant::now(),
        });
        outcome.into_answer()
    }
}
