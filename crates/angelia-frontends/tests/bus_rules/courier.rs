//! The delivery of a text: stored first, retried, marked when it may be a repeat, and reported when
//! it is given up.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_backends::deliveries::SqliteDeliveries;
use angelia_core::{
    ports::{
        BoxFuture, Channel, ChannelAbilities, Channels, Deliveries, Delivery, DeliveryState,
        Outgoing, SendError, SendFailure, Sent,
    },
    task::Tasks,
};
use angelia_frontends::chat::{Courier, CourierParts, Retry};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use super::stage::CountingClock;

/// A platform that gives the answers the test has queued, and otherwise accepts everything.
pub(crate) struct Chat {
    pub(crate) got: Mutex<Vec<(String, String)>>,
    pub(crate) answers: Mutex<Vec<Result<Sent, SendError>>>,
    pub(crate) gate: Semaphore,
}

impl Chat {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            got: Mutex::default(),
            answers: Mutex::default(),
            gate: Semaphore::new(1000),
        })
    }

    pub(crate) fn got(&self) -> Vec<(String, String)> {
        self.got.lock().unwrap().clone()
    }

    pub(crate) fn answers(&self, kinds: &[SendFailure]) {
        let errors = kinds.iter().rev().map(|kind| Err(SendError::new(*kind, "it said no")));
        *self.answers.lock().unwrap() = errors.collect();
    }
}

impl Channel for Chat {
    fn platform(&self) -> &'static str {
        "chat"
    }

    fn abilities(&self) -> ChannelAbilities {
        ChannelAbilities { home: true, ..ChannelAbilities::default() }
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a Outgoing,
    ) -> BoxFuture<'a, Result<Sent, SendError>> {
        Box::pin(async move {
            self.gate.acquire().await.unwrap().forget();
            self.got.lock().unwrap().push((chat.to_owned(), message.text.to_string()));
            let answer = self.answers.lock().unwrap().pop();
            answer.unwrap_or(Ok(Sent::default()))
        })
    }
}

pub(crate) struct Stage {
    pub(crate) courier: Courier,
    pub(crate) chat: Arc<Chat>,
    pub(crate) ledger: SqliteDeliveries,
    pub(crate) tasks: Tasks,
    folder: TempDir,
}

pub(crate) fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    stage_in(folder, Chat::new())
}

fn stage_in(folder: TempDir, chat: Arc<Chat>) -> Stage {
    let ledger = SqliteDeliveries::open(&folder.path().join("deliveries.db")).unwrap();
    let tasks = Tasks::new();
    let variable = |name: &str| (name == "CHAT_HOME_CHANNEL").then(|| "home".to_owned());
    let courier = Courier::new(CourierParts {
        channels: Channels::new(vec![Arc::clone(&chat) as _], variable),
        ledger: Arc::new(ledger.clone()),
        clock: Arc::new(CountingClock::default()),
        tasks: tasks.clone(),
        retry: Retry { attempts: 3, pause: Duration::from_millis(1) },
    });
    Stage { courier, chat, ledger, tasks, folder }
}

impl Stage {
    async fn send(&self, id: &str, text: &str) -> Result<(), String> {
        let sending = self.courier.send(id, "chat:1", text).await.unwrap();
        sending.outcome().await.map_err(|error| error.to_string())
    }

    async fn state(&self, id: &str) -> DeliveryState {
        self.ledger.get(id).await.unwrap().unwrap().state
    }
}

fn texts(chat: &Chat) -> Vec<String> {
    chat.got().into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn what_was_not_sent_is_tried_again_and_what_may_have_arrived_is_marked() {
    let stage = stage();
    stage.chat.answers(&[SendFailure::NotSent]);
    stage.send("a", "one\x1b[1m").await.unwrap();
    stage.chat.answers(&[SendFailure::Unknown]);
    stage.send("b", "two").await.unwrap();
    assert_eq!(texts(&stage.chat), ["one", "one", "two", "(may be a repeat) two"]);
    assert_eq!(stage.state("b").await, DeliveryState::Delivered { attempts: 2 });
    // The same delivery submitted again is not sent twice.
    stage.send("b", "two").await.unwrap();
    assert_eq!(texts(&stage.chat).len(), 4);
}

#[tokio::test]
async fn attempts_are_bounded_and_a_refusal_is_final() {
    let stage = stage();
    stage.chat.answers(&[SendFailure::NotSent; 5]);
    assert_eq!(stage.send("a", "one").await.unwrap_err(), "it said no");
    assert_eq!(texts(&stage.chat).len(), 3);
    stage.chat.answers(&[SendFailure::Refused]);
    stage.send("b", "two").await.unwrap_err();
    assert_eq!(texts(&stage.chat).len(), 4);
    let failed = DeliveryState::Failed { attempts: 1, error: "it said no".into() };
    assert_eq!(stage.state("b").await, failed);
}

#[tokio::test]
async fn where_it_goes_is_known_before_it_is_taken() {
    let stage = stage();
    let refused = |channel: &'static str| {
        let courier = stage.courier.clone();
        async move { courier.send("x", channel, "t").await.unwrap_err().to_string() }
    };
    assert_eq!(refused("carrier:1").await, "there is no platform `carrier`; set up are: chat");
    assert!(refused("no platform").await.contains("is not a channel"));
    assert!(refused("chat:").await.contains("is not a channel"));
    let sending = stage.courier.send("h", "Chat", "t").await.unwrap();
    sending.outcome().await.unwrap();
    let sending = stage.courier.send("c", "chat:a:b", "t").await.unwrap();
    sending.outcome().await.unwrap();
    let chats: Vec<String> = stage.chat.got().into_iter().map(|(chat, _)| chat).collect();
    assert_eq!(chats, ["home", "a:b"]);
}

#[tokio::test]
async fn a_chat_gets_its_texts_in_their_order() {
    let stage = stage();
    stage.chat.gate.forget_permits(1000);
    stage.chat.answers(&[SendFailure::NotSent]);
    let mut sending = Vec::new();
    for n in 0..20 {
        let id = format!("m-{n}");
        sending.push(stage.courier.send(&id, "chat:1", &id).await.unwrap());
    }
    stage.chat.gate.add_permits(1000);
    for one in sending {
        one.outcome().await.unwrap();
    }
    let mut expected: Vec<String> = (0..20).map(|n| format!("m-{n}")).collect();
    expected.insert(0, "m-0".to_owned());
    assert_eq!(texts(&stage.chat), expected);
}

#[tokio::test]
async fn what_a_dead_process_left_is_taken_up() {
    let first = stage();
    first.chat.gate.forget_permits(1000);
    drop(first.courier.send("cut", "chat:1", "was on its way").await.unwrap());
    let waits = first.courier.send("waits", "chat:1", "was next").await.unwrap();
    while !matches!(first.state("cut").await, DeliveryState::Attempting { .. }) {
        tokio::task::yield_now().await;
    }
    assert!(first.tasks.shutdown(Duration::from_secs(20)).await);
    assert!(waits.outcome().await.is_err());
    let old = Delivery {
        id: "old".into(),
        channel: "chat:1".into(),
        text: "yesterday's news".into(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        state: DeliveryState::NEW,
    };
    first.ledger.add(&old).await.unwrap();

    let second = stage_in(first.folder, Chat::new());
    assert_eq!(second.courier.recover().await.unwrap(), 3);
    while second.ledger.open().await.unwrap().iter().any(|one| one.state.is_open()) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(texts(&second.chat), ["(may be a repeat) was on its way", "was next"]);
    assert_eq!(second.state("old").await.as_str(), "failed");
    drop(second.folder);
}
