//! The Matrix adapter against the fake homeserver.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod formatting;
mod limits;
mod receiving;
mod setup;

use std::sync::{Arc, Mutex};

use angelia_core::ports::Channel;
use angelia_frontends::chat::matrix::{Matrix, MatrixSecrets};
use angelia_testkit::{
    clock::SystemClock,
    conformance::channel::{FakePlatform, PlatformAbilities, check_receiving, check_sending},
    matrix_server::{MatrixFault, MatrixServer, TOKEN},
};
use serde_json::json;

pub(crate) const PERSON: &str = "ada";

pub(crate) fn adapter(server: &MatrixServer) -> Arc<Matrix> {
    let secrets = MatrixSecrets { base_url: server.base_url(), token: TOKEN, user_id: None };
    Arc::new(Matrix::new(secrets, Arc::new(SystemClock)).unwrap())
}

struct FakeMatrix {
    server: MatrixServer,
    room: String,
    last: Mutex<String>,
}

impl FakeMatrix {
    fn start() -> Self {
        let server = MatrixServer::start();
        let room = server.direct_room(PERSON);
        Self { server, room, last: Mutex::default() }
    }
}

impl FakePlatform for FakeMatrix {
    fn abilities(&self) -> PlatformAbilities {
        // A homeserver does not look at formatting.
        PlatformAbilities { formatting_refusals: false, ..PlatformAbilities::ALL }
    }

    fn adapter(&self) -> Arc<dyn Channel> {
        adapter(&self.server)
    }

    fn chat(&self) -> String {
        self.room.clone()
    }

    fn say(&self, text: &str) {
        // What is there before the first poll is history.
        self.server.wait_for_first_poll();
        *self.last.lock().unwrap() = self.server.say(PERSON, text);
    }

    fn edit_last(&self, text: &str) {
        self.server.edit(&self.room, PERSON, &self.last.lock().unwrap(), text);
    }

    fn send_file(&self, name: &str, bytes: &[u8]) {
        let url = self.server.add_media("F1", "text/plain", bytes);
        let info = json!({"mimetype": "text/plain", "size": bytes.len()});
        let content = json!({"msgtype": "m.file", "body": name, "url": url, "info": info});
        self.server.say_in(&self.room, PERSON, content);
    }

    fn press(&self, label: &str) {
        let messages = self.server.messages(&self.room);
        let message = messages.last().unwrap();
        let choices = message.choices();
        let (key, _) = choices.iter().find(|(_, words)| words == label).unwrap();
        self.server.react(&self.room, PERSON, &message.id, key);
    }

    fn redeliver(&self) {
        self.server.repeat(1);
    }

    fn push_garbage(&self) {
        self.server.push(&self.room, PERSON, "m.room.message", json!([1]));
        self.server.push(&self.room, PERSON, "m.reaction", json!({"m.relates_to": 7}));
        self.server.push(&self.room, PERSON, "m.something.new", json!({}));
        self.server.react(&self.room, PERSON, "$nothing", "1\u{fe0f}\u{20e3}");
        self.server.edit(&self.room, PERSON, "$nothing", "words");
    }

    fn is_acknowledged(&self) -> bool {
        self.server.is_confirmed()
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let messages = self.server.messages(&self.room).into_iter();
        messages
            .filter(|one| one.kind != "m.notice")
            .map(|one| {
                let labels = one.choices().into_iter().map(|(_, label)| label).collect();
                let file = one.file.as_ref().and_then(|(_, url)| self.server.media(url));
                (one.text, labels, file)
            })
            .collect()
    }

    fn limit_next_send(&self) {
        self.server.fail_next("PUT send", MatrixFault::TooMany(1000));
    }

    fn refuse_next_formatting(&self) {}

    fn cut_next_send(&self) {
        self.server.fail_next("PUT send", MatrixFault::Cut);
    }

    fn break_connection(&self) {
        self.server.fail_next("GET sync", MatrixFault::Garbage);
    }

    fn block(&self) {
        self.server.kick(&self.room, PERSON);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeMatrix::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeMatrix::start()).await;
}
