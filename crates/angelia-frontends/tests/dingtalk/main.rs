//! The DingTalk adapter against the fake server of DingTalk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod connection;
mod formatting;
mod replies;

use std::sync::Arc;

use angelia_core::{
    ports::{
        Channel, ConnectionErrorKind, EventInbox, InboundEvent, OutgoingMessage, ReplyRoute,
        RichText, StoreFuture,
    },
    task::TaskGroup,
};
use angelia_frontends::chat::dingtalk::{DingTalk, DingTalkSecrets};
use angelia_testkit::{
    clock::SystemClock,
    conformance::channel::{FakePlatform, PlatformAbilities, check_receiving, check_sending},
    dingtalk_server::{CLIENT_ID, CLIENT_SECRET, DingTalkServer, RobotFault, TEMPLATE},
    direct_session::wait_until,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub(crate) const PERSON: &str = "ada";
pub(crate) const CHAT: &str = "user:ada";
pub(crate) const GROUP: &str = "cidGroup==";
pub(crate) const TO_PERSON: &str = "/v1.0/robot/oToMessages/batchSend";
pub(crate) const TO_GROUP: &str = "/v1.0/robot/groupMessages/send";
pub(crate) const BY_SESSION: &str = "/robot/sendBySession";

pub(crate) fn secrets(template: Option<&str>) -> DingTalkSecrets<'_> {
    DingTalkSecrets {
        client_id: CLIENT_ID,
        client_secret: CLIENT_SECRET,
        card_template_id: template,
    }
}

pub(crate) fn adapter(server: &DingTalkServer, template: Option<&str>) -> Arc<DingTalk> {
    let clock = Arc::new(SystemClock);
    Arc::new(DingTalk::new(secrets(template), Some(server.base_url()), clock).unwrap())
}

pub(crate) fn message(id: &str, text: &str) -> OutgoingMessage {
    OutgoingMessage {
        id: id.into(),
        text: text.into(),
        rich: Some(RichText::plain(text)),
        ..OutgoingMessage::default()
    }
}

/// Keeps what an adapter stores.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) events: Mutex<Vec<InboundEvent>>,
    pub(crate) routes: Mutex<Vec<(Arc<str>, ReplyRoute)>>,
}

impl EventInbox for Inbox {
    fn accept(&self, events: Vec<InboundEvent>, _cursor: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        self.events.lock().extend(events);
        Box::pin(async { Ok(()) })
    }

    fn keep_route<'a>(&'a self, chat: &'a str, route: ReplyRoute) -> StoreFuture<'a, ()> {
        self.routes.lock().push((chat.into(), route));
        Box::pin(async { Ok(()) })
    }

    fn note_alive(&self) {}
}

/// An adapter that receives until this is dropped.
pub(crate) struct Connected {
    pub(crate) inbox: Arc<Inbox>,
    stop: CancellationToken,
}

impl Connected {
    pub(crate) async fn start(server: &DingTalkServer, robot: &Arc<DingTalk>) -> Self {
        let (inbox, stop) = (Arc::new(Inbox::default()), CancellationToken::new());
        let (own, robot, token) = (Arc::clone(&inbox), Arc::clone(robot), stop.clone());
        TaskGroup::new().spawn(async move {
            let _ended = token.run_until_cancelled(robot.receive(None, &*own)).await;
        });
        wait_until("it connects", || server.connections() > 0).await;
        Self { inbox, stop }
    }

    pub(crate) async fn wait_for_events(&self, count: usize) {
        wait_until("events arrive", || self.inbox.events.lock().len() >= count).await;
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct FakeDingTalk {
    server: DingTalkServer,
    template: Option<&'static str>,
}

impl FakeDingTalk {
    fn start(template: Option<&'static str>) -> Self {
        Self { server: DingTalkServer::start(), template }
    }
}

impl FakePlatform for FakeDingTalk {
    fn abilities(&self) -> PlatformAbilities {
        PlatformAbilities {
            edits: false,
            backlog: false,
            formatting_refusals: false,
            ..PlatformAbilities::ALL
        }
    }

    fn adapter(&self) -> Arc<dyn Channel> {
        adapter(&self.server, self.template)
    }

    fn chat(&self) -> String {
        CHAT.to_owned()
    }

    fn say(&self, text: &str) {
        self.server.say(PERSON, text);
    }

    fn edit_last(&self, _text: &str) {}

    fn send_file(&self, name: &str, bytes: &[u8]) {
        self.server.send_file(PERSON, name, bytes);
    }

    fn press(&self, label: &str) {
        let card = self.server.messages(CHAT).pop().unwrap();
        let (_, button) = card.buttons.iter().find(|(text, _)| text == label).unwrap();
        self.server.press(PERSON, &card.id, button);
    }

    fn redeliver(&self) {
        self.server.repeat(1);
    }

    fn push_garbage(&self) {
        for text in [
            "?",
            "[1]",
            r#"{"type":"CALLBACK","headers":{"topic":"/v1.0/im/bot/messages/get","messageId":"g"},"data":"?"}"#,
            r#"{"type":"CALLBACK","headers":{"topic":"/new","messageId":"g2"},"data":"{}"}"#,
            r#"{"type":"EVENT","headers":{},"data":"{}"}"#,
        ] {
            self.server.push_raw(text);
        }
    }

    fn is_acknowledged(&self) -> bool {
        self.server.is_all_acknowledged()
    }

    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)> {
        let messages = self.server.messages(CHAT).into_iter();
        messages
            .map(|one| {
                let labels = one.buttons.into_iter().map(|(label, _)| label).collect();
                (one.text, labels, one.file.map(|(_, bytes)| bytes))
            })
            .collect()
    }

    fn limit_next_send(&self) {
        let code = "Forbidden.AccessDenied.QpsLimitForApi".to_owned();
        self.server.fail_next(TO_PERSON, RobotFault::Refuse(403, code, "too fast".to_owned()));
    }

    fn refuse_next_formatting(&self) {}

    fn cut_next_send(&self) {
        self.server.fail_next(TO_PERSON, RobotFault::Cut);
    }

    fn break_connection(&self) {
        self.server.cut_sockets();
    }

    fn block(&self) {
        self.server.block(PERSON);
    }
}

#[tokio::test]
async fn it_receives_as_every_adapter_does() {
    check_receiving(&FakeDingTalk::start(None)).await;
}

#[tokio::test]
async fn it_receives_presses_of_cards_as_every_adapter_does() {
    check_receiving(&FakeDingTalk::start(Some(TEMPLATE))).await;
}

#[tokio::test]
async fn it_sends_as_every_adapter_does() {
    check_sending(&FakeDingTalk::start(None)).await;
}

#[tokio::test]
async fn it_sends_cards_as_every_adapter_does() {
    check_sending(&FakeDingTalk::start(Some(TEMPLATE))).await;
}

#[tokio::test]
async fn a_check_names_what_is_wrong() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, Some(TEMPLATE));
    let texts = |findings: Vec<angelia_core::ports::ChannelFinding>| {
        let lines = findings.iter().map(|one| format!("{} {}", one.is_problem, one.text));
        lines.collect::<Vec<_>>().join("\n")
    };
    let fine = texts(robot.check().await.unwrap());
    assert!(!fine.contains("true") && fine.contains(CLIENT_ID), "{fine}");
    server.deny(TO_PERSON, "qyapi_robot_sendmsg");
    server.deny("/v1.0/card/streaming", "Card.Streaming.Write");
    let found = texts(robot.check().await.unwrap());
    assert!(
        found.contains("qyapi_robot_sendmsg") && found.contains("Card.Streaming.Write"),
        "{found}"
    );
    assert!(server.messages(CHAT).is_empty(), "a check sends nothing");
    let clock = Arc::new(SystemClock);
    let wrong = DingTalkSecrets { client_secret: "hush-hush", ..secrets(None) };
    let wrong = DingTalk::new(wrong, Some(server.base_url()), clock.clone()).unwrap();
    let error = wrong.check().await.unwrap_err();
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert!(!error.to_string().contains("hush") && !format!("{wrong:?}").contains("hush"));
    let error = wrong.receive(None, &Inbox::default()).await;
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    let plain = DingTalk::new(secrets(None), Some("http://example.com"), clock.clone());
    assert!(plain.unwrap_err().to_string().contains("unencrypted"));
    let empty = DingTalkSecrets { client_id: "", ..secrets(None) };
    assert!(DingTalk::new(empty, None, clock).is_err());
}
