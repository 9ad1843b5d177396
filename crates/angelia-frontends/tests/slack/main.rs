//! The Slack adapter against the fake server of Slack.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod budget;
mod connection;
mod formatting;
mod set_up;
mod streaming;

use std::sync::{Arc, Mutex};

use angelia_core::{
    ports::{Channel, EventInbox, InboundEvent, OutgoingMessage, StoreFuture},
    task::TaskGroup,
};
use angelia_frontends::chat::{formatting::parse_markdown, slack::Slack};
use angelia_testkit::{
    conformance::channel::{FakePlatform, check_receiving, check_sending},
    slack_server::{APP_TOKEN, BOT_TOKEN, SlackFault, SlackMessage, SlackServer},
};

pub(crate) const PERSON: &str = "U7";

pub(crate) fn adapter(server: &SlackServer) -> Arc<Slack> {
    Arc::new(Slack::new(BOT_TOKEN, APP_TOKEN, Some(&server.base_url())).unwrap())
}

/// Returns a message with this Markdown.
pub(crate) fn markdown(text: &str) -> OutgoingMessage {
    let rich = parse_markdown(text);
    OutgoingMessage {
        id: "m".into(),
        text: rich.visible_text().into(),
        rich: Some(rich),
        ..OutgoingMessage::default()
    }
}

/// Keeps everything that an adapter receives, in the background.
#[derive(Default)]
pub(crate) struct KeptEvents {
    events: Mutex<Vec<InboundEvent>>,
}

impl KeptEvents {
    /// Receives until the test ends.
    pub(crate) fn receive(adapter: &Arc<Slack>) -> Arc<Self> {
        let kept = Arc::new(Self::default());
        let (own, adapter) = (Arc::clone(&kept), Arc::clone(adapter));
        TaskGroup::new().spawn(async move {
            let _ended = adapter.receive(None, &*own).await;
        });
        kept
    }

    pub(crate) fn all(&self) -> Vec<InboundEvent> {
        self.events.lock().unwrap().clone()
    }
}

impl EventInbox for KeptEvents {
    fn accept(&self, events: Vec<InboundEvent>, _: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        self.events.lock().unwrap().extend(events);
        Box::pin(async { Ok(()) })
    }

    fn note_alive(&self) {}
}

struct FakeSlack {
    server: SlackServer,
    /// The time and the text of the person's last message.
    last: Mutex<(String, String)>,
}

impl FakeSlack {
    fn start() -> Self {
        Self { server: SlackServer::start(), last: Mutex::default() }
    }

    fn bot_messages(&self) -> Vec<SlackMessage> {
        self.server.messages(&self.chat())
    }
}

impl FakePlatform for FakeSlack {
    fn adapter(&self) -> Arc<dyn Channel> {
        adapter(&self.server)
    }

    fn chat(&self) -> String {
        SlackServer::direct_channel(PERSON)
    }

    fn say(&self, text: &str) {
        *self.last.lock().unwrap() = (self.server.say(PERSON, text), text.to_owned());
    }

    fn edit_last(&self, text: &str) {
        let (ts, before) = self.last.lock().unwrap().clone();
        self.server.edit(PERSON, &ts, &before, text);
    }

    fn send_file(&self, name: &str, bytes: &[u8]) {
        self.server.send_file(PERSON, name, bytes, true);
    }

    fn press(&self, label: &str) {
        self.server.press(PERSON, self.bot_messages().last().unwrap(), label);
    }

    fn redeliver(&self) {
        self.server.redeliver(1);
    }

    fn push_garbage(&self) {
        self.server.send_text("not JSON");
        self.server.send_text("[]");
        self.server.push("events_api", serde_json::json!({"event": {"type": "message", "ts": 5}}));
    }

    fn is_acknowledged(&self) -> bool {
        self.server.is_acknowledged()
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let messages = self.bot_messages().into_iter();
        messages
            .map(|one| {
                let labels = one.buttons.into_iter().map(|(label, _)| label).collect();
                (one.text, labels, one.file.map(|(_, bytes)| bytes))
            })
            .collect()
    }

    fn limit_next_send(&self) {
        self.server.fail_next("chat.postMessage", SlackFault::TooMany(1));
    }

    fn refuse_next_formatting(&self) {
        self.server.fail_next("chat.postMessage", SlackFault::Refuse("invalid_blocks".to_owned()));
    }

    fn cut_next_send(&self) {
        self.server.fail_next("chat.postMessage", SlackFault::Cut);
    }

    fn break_connection(&self) {
        self.server.cut_sockets();
    }

    fn block(&self) {
        self.server.archive(&self.chat());
    }
}

#[tokio::test]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeSlack::start()).await;
}

#[tokio::test]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeSlack::start()).await;
}
