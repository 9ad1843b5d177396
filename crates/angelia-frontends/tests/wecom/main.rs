//! The WeCom adapter against the fake server of its long connection.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod connection;
mod formatting;

use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use angelia_core::{
    ports::{
        Button, Channel, ConnectionError, EventInbox, InboundEvent, OutgoingMessage, RichText,
        StoreFuture,
    },
    task::TaskGroup,
};
use angelia_frontends::chat::wecom::Wecom;
use angelia_testkit::{
    clock::SystemClock,
    conformance::channel::{FakePlatform, PlatformAbilities, check_receiving, check_sending},
    wecom_server::{BOT_ID, BotFault, SECRET, WecomServer, visible_text},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) const PERSON: &str = "ada";
pub(crate) const SEND: &str = "aibot_send_msg";
pub(crate) const RESPOND: &str = "aibot_respond_msg";

pub(crate) fn adapter(server: &WecomServer) -> Arc<Wecom> {
    let clock = Arc::new(SystemClock);
    Arc::new(Wecom::new(BOT_ID, SECRET, Some(server.base_url()), clock).unwrap())
}

pub(crate) fn message(id: &str, text: &str) -> OutgoingMessage {
    let rich = Some(RichText::plain(text));
    OutgoingMessage { id: id.into(), text: text.into(), rich, ..OutgoingMessage::default() }
}

pub(crate) fn answer(id: &str, text: &str, to: &str) -> OutgoingMessage {
    OutgoingMessage { reply_to: Some(to.into()), ..message(id, text) }
}

pub(crate) fn question(id: &str, text: &str) -> OutgoingMessage {
    let button = Button { label: "Yes".into(), value: "v:1".into(), words: None };
    OutgoingMessage { buttons: vec![button], ..message(id, text) }
}

/// Waits on its thread; the tests have several.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[derive(Default)]
pub(crate) struct Inbox(pub(crate) Mutex<Vec<InboundEvent>>);

impl EventInbox for Inbox {
    fn accept(&self, events: Vec<InboundEvent>, _: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        self.0.lock().unwrap().extend(events);
        Box::pin(async { Ok(()) })
    }

    fn note_alive(&self) {}
}

/// An adapter that receives until this is dropped.
pub(crate) struct Connected {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) ended: mpsc::Receiver<ConnectionError>,
    stop: CancellationToken,
}

impl Connected {
    pub(crate) fn start(server: &WecomServer, bot: &Arc<Wecom>) -> Self {
        let (inbox, stop) = (Arc::new(Inbox::default()), CancellationToken::new());
        let (own, bot, token) = (Arc::clone(&inbox), Arc::clone(bot), stop.clone());
        let (told, ended) = mpsc::channel(1);
        TaskGroup::new().spawn(async move {
            if let Some(error) = token.run_until_cancelled(bot.receive(None, &*own)).await {
                told.send(error).await.unwrap();
            }
        });
        until("it connects", || server.is_connected());
        Self { inbox, ended, stop }
    }

    pub(crate) fn wait_for_events(&self, count: usize) -> Vec<InboundEvent> {
        until("events arrive", || self.inbox.0.lock().unwrap().len() >= count);
        self.inbox.0.lock().unwrap().clone()
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct FakeWecom(WecomServer);

impl FakePlatform for FakeWecom {
    fn abilities(&self) -> PlatformAbilities {
        // What people write while nobody is connected is not known to come later.
        PlatformAbilities {
            edits: false,
            acknowledgements: false,
            backlog: false,
            formatting_refusals: false,
            file_names: false,
            ..PlatformAbilities::ALL
        }
    }

    fn adapter(&self) -> Arc<dyn Channel> {
        adapter(&self.0)
    }

    fn chat(&self) -> String {
        PERSON.to_owned()
    }

    fn say(&self, text: &str) {
        until("the bot is connected", || self.0.is_connected());
        self.0.say(PERSON, text);
    }

    fn edit_last(&self, _text: &str) {}

    fn send_file(&self, _name: &str, bytes: &[u8]) {
        self.0.send_file(PERSON, bytes);
    }

    fn press(&self, label: &str) {
        let card = self.0.messages(PERSON).pop().unwrap();
        let (_, key) = card.buttons.iter().find(|(known, _)| known == label).unwrap();
        self.0.press(PERSON, &card, key);
    }

    fn redeliver(&self) {
        self.0.repeat(1);
    }

    fn push_garbage(&self) {
        for frame in ["{", "[1]", "{\"cmd\": 7}", "{\"headers\": {\"req_id\": \"nobody\"}}"] {
            self.0.push_raw(frame);
        }
        self.0.push_raw("{\"cmd\": \"aibot_msg_callback\", \"body\": {\"msgtype\": \"text\"}}");
        self.0.push_raw("{\"cmd\": \"aibot_event_callback\", \"body\": {\"event\": 1}}");
    }

    fn is_acknowledged(&self) -> bool {
        true
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let messages = self.0.messages(PERSON).into_iter();
        messages
            .map(|one| {
                let labels = one.buttons.into_iter().map(|(label, _)| label).collect();
                (visible_text(&one.text), labels, one.file.map(|(_, bytes)| bytes))
            })
            .collect()
    }

    fn limit_next_send(&self) {
        self.0.fail_next(SEND, BotFault::Refuse(45009, "api freq out of limit".to_owned()));
    }

    fn refuse_next_formatting(&self) {}

    fn cut_next_send(&self) {
        self.0.fail_next(SEND, BotFault::Cut);
    }

    fn break_connection(&self) {
        self.0.cut();
    }

    fn block(&self) {
        self.0.block(PERSON);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeWecom(WecomServer::start())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeWecom(WecomServer::start())).await;
}
