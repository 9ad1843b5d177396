//! The Feishu adapter against the fake server of Feishu.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod budget;
mod connecting;
mod formatting;
mod setup;
mod streaming;

use std::sync::{Arc, Mutex};

use angelia_core::{
    ports::{
        Channel, ConnectionError, EventInbox, InboundEvent, OutgoingMessage, RichText, StoreFuture,
    },
    task::TaskGroup,
};
use angelia_frontends::chat::feishu::Feishu;
use angelia_testkit::{
    clock::SystemClock,
    conformance::channel::{FakePlatform, PlatformAbilities, check_receiving, check_sending},
    direct_session::wait_until,
    feishu_server::{APP_ID, APP_SECRET, ApiFault, FeishuServer, MessageKind},
};
use serde_json::json;

pub(crate) const PERSON: &str = "ou_7";

pub(crate) fn adapter(server: &FeishuServer) -> Arc<Feishu> {
    let clock = Arc::new(SystemClock);
    Arc::new(Feishu::new(APP_ID, APP_SECRET, Some(server.base_url()), clock).unwrap())
}

pub(crate) fn chat() -> String {
    FeishuServer::direct_chat(PERSON)
}

pub(crate) fn message(id: &str, text: &str) -> OutgoingMessage {
    OutgoingMessage {
        id: id.into(),
        text: text.into(),
        rich: Some(RichText::plain(text)),
        ..OutgoingMessage::default()
    }
}

/// Receives until it is dropped, and keeps what came.
pub(crate) struct Receiver {
    kept: Arc<KeptEvents>,
    tasks: TaskGroup,
}

#[derive(Default)]
struct KeptEvents {
    events: Mutex<Vec<InboundEvent>>,
    ended: Mutex<Option<ConnectionError>>,
}

impl EventInbox for KeptEvents {
    fn accept(&self, events: Vec<InboundEvent>, _cursor: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.events.lock().unwrap().extend(events);
            Ok(())
        })
    }

    fn note_alive(&self) {}
}

impl Receiver {
    pub(crate) async fn start(adapter: &Arc<Feishu>, server: &FeishuServer) -> Self {
        let kept = Arc::new(KeptEvents::default());
        let tasks = TaskGroup::new();
        let (adapter, inbox) = (Arc::clone(adapter), Arc::clone(&kept));
        let before = server.connections();
        tasks.spawn_until_stopped(async move {
            let error = adapter.receive(None, &*inbox).await;
            *inbox.ended.lock().unwrap() = Some(error);
        });
        let receiver = Self { kept, tasks };
        wait_until("it is connected or has failed", || {
            server.connections() > before || receiver.ended().is_some()
        })
        .await;
        receiver
    }

    pub(crate) fn events(&self) -> Vec<InboundEvent> {
        self.kept.events.lock().unwrap().clone()
    }

    pub(crate) fn ended(&self) -> Option<ConnectionError> {
        self.kept.ended.lock().unwrap().clone()
    }

    /// Returns the events when there are so many.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<InboundEvent> {
        wait_until("the events come", || self.events().len() >= count).await;
        self.events()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.tasks.stop_token().cancel();
    }
}

struct FakeFeishu(FeishuServer);

impl FakePlatform for FakeFeishu {
    fn abilities(&self) -> PlatformAbilities {
        // The platform does not tell bots that somebody has edited a message.
        PlatformAbilities { edits: false, ..PlatformAbilities::ALL }
    }

    fn adapter(&self) -> Arc<dyn Channel> {
        adapter(&self.0)
    }

    fn chat(&self) -> String {
        chat()
    }

    fn say(&self, text: &str) {
        self.0.say(PERSON, text);
    }

    fn edit_last(&self, _text: &str) {}

    fn send_file(&self, name: &str, bytes: &[u8]) {
        self.0.add_file("file_in", name, bytes);
        let content = json!({"file_key": "file_in", "file_name": name});
        self.0.write(PERSON, MessageKind::Direct, "file", &content, &json!({}));
    }

    fn press(&self, label: &str) {
        let messages = self.0.messages(&chat());
        self.0.press(PERSON, messages.last().unwrap(), label);
    }

    fn redeliver(&self) {
        self.0.repeat(1);
    }

    fn push_garbage(&self) {
        self.0.push_garbage();
        self.0.push_payload(b"{\"header\":".to_vec(), 1);
        self.0.push("im.message.receive_v1", &json!({"message": []}));
        self.0.push("something.new_v9", &json!({}));
    }

    fn is_acknowledged(&self) -> bool {
        self.0.is_acknowledged()
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let messages = self.0.messages(&chat()).into_iter();
        messages
            .map(|one| {
                let labels = one.buttons.into_iter().map(|(label, _)| label).collect();
                (one.text, labels, one.file.map(|(_, bytes)| bytes))
            })
            .collect()
    }

    fn limit_next_send(&self) {
        self.0.fail_next("send", ApiFault::TooMany(1));
    }

    fn refuse_next_formatting(&self) {
        let words = "Your request contains an invalid request parameter, ext=content";
        self.0.fail_next("send", ApiFault::Refuse(230_001, words.to_owned()));
    }

    fn cut_next_send(&self) {
        self.0.fail_next("send", ApiFault::Cut);
    }

    fn break_connection(&self) {
        self.0.cut();
    }

    fn block(&self) {
        self.0.block(&chat());
    }
}

#[tokio::test]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeFeishu(FeishuServer::start())).await;
}

#[tokio::test]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeFeishu(FeishuServer::start())).await;
}
