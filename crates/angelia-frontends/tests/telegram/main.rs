//! The Telegram adapter against the fake server of the Bot API.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod budget;
mod formatting;

use std::sync::{Arc, Mutex};

use angelia_core::ports::Channel;
use angelia_frontends::chat::telegram::Telegram;
use angelia_testkit::{
    clock::SystemClock,
    conformance::channel::{FakePlatform, check_receiving, check_sending},
    telegram_server::{BotFault, TOKEN, TelegramServer},
};
use serde_json::json;

const PERSON: i64 = 7;

pub(crate) fn adapter(server: &TelegramServer) -> Arc<Telegram> {
    let clock = Arc::new(SystemClock);
    Arc::new(Telegram::new(TOKEN, Some(server.base_url()), clock).unwrap())
}

struct FakeTelegram {
    server: TelegramServer,
    last: Mutex<(i64, i64)>,
}

impl FakeTelegram {
    fn start() -> Self {
        Self { server: TelegramServer::start(), last: Mutex::default() }
    }

    fn note(&self, message: i64, update: i64) {
        *self.last.lock().unwrap() = (message, update);
    }

    fn push_message(&self, kind: &str, message: i64, extra: &serde_json::Value) {
        let mut fields = json!({
            "message_id": message, "date": 1_700_000_000,
            "from": {"id": PERSON, "is_bot": false, "first_name": "Ada"},
            "chat": {"id": PERSON, "type": "private"},
        });
        fields.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let update = self.server.push(json!({kind: fields}));
        self.note(message, update);
    }
}

impl FakePlatform for FakeTelegram {
    fn adapter(&self) -> Arc<dyn Channel> {
        adapter(&self.server)
    }

    fn chat(&self) -> String {
        PERSON.to_string()
    }

    fn say(&self, text: &str) {
        self.push_message("message", self.server.message_id(), &json!({"text": text}));
    }

    fn edit_last(&self, text: &str) {
        let (message, _) = *self.last.lock().unwrap();
        self.push_message("edited_message", message, &json!({"text": text}));
    }

    fn send_file(&self, name: &str, bytes: &[u8]) {
        self.server.add_file("F1", bytes);
        let document =
            json!({"document": {"file_id": "F1", "file_name": name, "file_size": bytes.len()}});
        self.push_message("message", self.server.message_id(), &document);
    }

    fn press(&self, label: &str) {
        let messages = self.server.messages(PERSON);
        let update = self.server.press(PERSON, messages.last().unwrap(), label);
        self.note(0, update);
    }

    fn redeliver(&self) {
        self.server.repeat(1);
    }

    fn push_garbage(&self) {
        self.server.push(json!({"message": {"message_id": "?", "chat": []}}));
        self.server.push(json!({"something_new": 1}));
    }

    fn is_acknowledged(&self) -> bool {
        self.server.confirmed() > self.last.lock().unwrap().1
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let messages = self.server.messages(PERSON).into_iter();
        messages
            .map(|one| {
                let labels = one.buttons.into_iter().map(|(label, _)| label).collect();
                (one.text, labels, one.file.map(|(_, bytes)| bytes))
            })
            .collect()
    }

    fn limit_next_send(&self) {
        self.server.fail_next("sendMessage", BotFault::TooMany(1));
    }

    fn refuse_next_formatting(&self) {
        let why = "Bad Request: can't parse entities: unexpected end";
        self.server.fail_next("sendMessage", BotFault::Refuse(400, why.to_owned()));
    }

    fn cut_next_send(&self) {
        self.server.fail_next("sendMessage", BotFault::Cut);
    }

    fn break_connection(&self) {
        self.server.fail_next("getUpdates", BotFault::Garbage);
    }

    fn block(&self) {
        self.server.block(PERSON);
    }
}

#[tokio::test]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeTelegram::start()).await;
}

#[tokio::test]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeTelegram::start()).await;
}

#[tokio::test]
async fn a_refused_token_is_told_from_a_lost_connection() {
    let server = TelegramServer::start();
    let clock = Arc::new(SystemClock);
    let wrong = Telegram::new("1:wrong", Some(server.base_url()), clock).unwrap();
    let error = wrong.check().await.unwrap_err();
    assert!(error.to_string().contains("@BotFather"), "{error}");
    assert!(!error.to_string().contains("wrong"), "the token is never shown");
    assert!(!format!("{wrong:?}").contains("wrong"));
    for bad in ["", "abc", "1:", "1:a b", "x:abc"] {
        assert!(Telegram::new(bad, None, Arc::new(SystemClock)).is_err(), "{bad}");
    }
    let plain = Telegram::new(TOKEN, Some("http://example.com"), Arc::new(SystemClock));
    assert!(plain.unwrap_err().to_string().contains("unencrypted"));
}

#[tokio::test]
async fn a_server_without_drafts_gets_edits() {
    use angelia_core::ports::{RichText, StreamMeans};
    let server = TelegramServer::start();
    let bot = adapter(&server);
    assert!(matches!(bot.stream_means("7"), StreamMeans::Draft { .. }));
    assert!(matches!(bot.stream_means("-7"), StreamMeans::Edit { .. }));
    server.forget_method("sendMessageDraft");
    bot.show_draft("7", 9 << 20, &RichText::plain("x")).await.unwrap_err();
    assert!(matches!(bot.stream_means("7"), StreamMeans::Edit { .. }));
}
