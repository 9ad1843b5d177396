//! The Discord adapter against the fake gateway and REST API.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod connection;
mod formatting;
mod limits;
mod setup;

use std::sync::{Arc, Mutex};

use angelia_core::ports::Channel;
use angelia_frontends::chat::discord::Discord;
use angelia_testkit::{
    clock::SystemClock,
    conformance::channel::{FakePlatform, PlatformAbilities, check_receiving, check_sending},
    discord_server::{DiscordServer, GatewayFault, RestFault, TOKEN},
};
use serde_json::json;

pub(crate) const PERSON: u64 = 7;

pub(crate) fn adapter(server: &DiscordServer) -> Arc<Discord> {
    Arc::new(Discord::new(TOKEN, Some(server.base_url()), Arc::new(SystemClock)).unwrap())
}

struct FakeDiscord {
    server: DiscordServer,
    last: Mutex<u64>,
}

impl FakeDiscord {
    fn start() -> Self {
        Self { server: DiscordServer::start(), last: Mutex::default() }
    }
}

impl FakePlatform for FakeDiscord {
    fn abilities(&self) -> PlatformAbilities {
        // The gateway wants no acknowledgement, and no formatting is wrong.
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
        DiscordServer::direct_channel(PERSON)
    }

    fn say(&self, text: &str) {
        *self.last.lock().unwrap() = self.server.say(PERSON, text);
    }

    fn edit_last(&self, text: &str) {
        self.server.edit(PERSON, *self.last.lock().unwrap(), text);
    }

    fn send_file(&self, name: &str, bytes: &[u8]) {
        self.server.send_file(PERSON, name, bytes);
    }

    fn press(&self, label: &str) {
        let messages = self.server.messages(&self.chat());
        self.server.press(PERSON, messages.last().unwrap(), label);
    }

    fn redeliver(&self) {
        self.server.repeat(1);
    }

    fn push_garbage(&self) {
        self.server.send_frame("{");
        self.server.send_frame("[1]");
        self.server.send_frame(r#"{"op": 99, "d": 1}"#);
        self.server.push("MESSAGE_CREATE", &json!({"id": 1, "channel_id": []}));
        self.server.push("SOMETHING_NEW", &json!(7));
    }

    fn is_acknowledged(&self) -> bool {
        true
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let messages = self.server.messages(&self.chat()).into_iter();
        messages
            .map(|one| {
                let labels = one.buttons.into_iter().map(|(label, _)| label).collect();
                (one.text, labels, one.file.map(|(_, bytes)| bytes))
            })
            .collect()
    }

    fn limit_next_send(&self) {
        self.server.fail_next("POST messages", RestFault::TooMany(1.0, false));
    }

    fn refuse_next_formatting(&self) {}

    fn cut_next_send(&self) {
        self.server.fail_next("POST messages", RestFault::Cut);
    }

    fn break_connection(&self) {
        self.server.fail_gateway(GatewayFault::Cut);
    }

    fn block(&self) {
        self.server.block(PERSON);
    }
}

#[tokio::test]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeDiscord::start()).await;
}

#[tokio::test]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeDiscord::start()).await;
}
