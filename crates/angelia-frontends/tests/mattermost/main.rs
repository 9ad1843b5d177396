//! The Mattermost adapter against the fake server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod formatting;
mod limits;
mod receiving;
mod setup;

use std::sync::{Arc, Mutex};

use angelia_core::ports::Channel;
use angelia_frontends::chat::mattermost::Mattermost;
use angelia_testkit::{
    clock::SystemClock,
    conformance::channel::{FakePlatform, PlatformAbilities, check_receiving, check_sending},
    mattermost_server::{MattermostFault, MattermostServer, TOKEN},
};
use serde_json::json;

pub(crate) const PERSON: &str = "ada";

/// The emojis of the first choices.
const EMOJIS: [&str; 3] = ["one", "two", "three"];

pub(crate) fn adapter(server: &MattermostServer) -> Arc<Mattermost> {
    Arc::new(Mattermost::new(server.base_url(), TOKEN, Arc::new(SystemClock)).unwrap())
}

struct FakeMattermost {
    server: MattermostServer,
    channel: String,
    last: Mutex<String>,
}

impl FakeMattermost {
    fn start() -> Self {
        let server = MattermostServer::start();
        let channel = server.direct_channel(PERSON);
        Self { server, channel, last: Mutex::default() }
    }
}

impl FakePlatform for FakeMattermost {
    fn abilities(&self) -> PlatformAbilities {
        // The socket wants no acknowledgement, and no formatting is wrong.
        PlatformAbilities {
            acknowledgements: false,
            formatting_refusals: false,
            ..PlatformAbilities::ALL
        }
    }

    fn adapter(&self) -> Arc<dyn Channel> {
        adapter(&self.server)
    }

    fn chat(&self) -> String {
        self.channel.clone()
    }

    fn say(&self, text: &str) {
        // What is there before the first connection is history.
        self.server.wait_for_client();
        *self.last.lock().unwrap() = self.server.say(PERSON, text);
    }

    fn edit_last(&self, text: &str) {
        self.server.edit(&self.last.lock().unwrap(), text);
    }

    fn send_file(&self, name: &str, bytes: &[u8]) {
        let file = self.server.add_file(name, bytes);
        let fields = json!({"message": "", "file_ids": [file]});
        self.server.say_in(&self.channel, PERSON, &fields);
    }

    fn press(&self, label: &str) {
        let posts = self.server.messages(&self.channel);
        let post = posts.last().unwrap();
        let index = post.choices().iter().position(|words| words == label).unwrap();
        self.server.react(PERSON, &post.id, EMOJIS[index]);
    }

    fn redeliver(&self) {
        self.server.repeat(1);
    }

    fn push_garbage(&self) {
        self.server.send_frame("{");
        self.server.send_frame("[1]");
        self.server.send_frame(r#"{"event": "posted", "data": {"post": 7}}"#);
        self.server.send_frame(r#"{"event": "something_new", "data": {}}"#);
        self.server.react(PERSON, "nothing", "one");
    }

    fn is_acknowledged(&self) -> bool {
        true
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let posts = self.server.messages(&self.channel).into_iter();
        posts
            .map(|one| {
                let labels = one.choices();
                (one.text, labels, one.file.map(|(_, bytes)| bytes))
            })
            .collect()
    }

    fn limit_next_send(&self) {
        self.server.fail_next("POST posts", MattermostFault::TooMany(1));
    }

    fn refuse_next_formatting(&self) {}

    fn cut_next_send(&self) {
        self.server.fail_next("POST posts", MattermostFault::Cut);
    }

    fn break_connection(&self) {
        self.server.cut_sockets();
    }

    fn block(&self) {
        self.server.remove_bot(&self.channel);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeMattermost::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeMattermost::start()).await;
}
