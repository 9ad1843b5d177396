//! The delivery of a text: stored first, retried, marked when it may be a repeat, and reported when
//! it is given up.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_backends::deliveries::SqliteDeliveries;
use angelia_core::{
    ports::{
        BoxFuture, Channel, ChannelCapabilities, ChannelDelivery, ChannelRegistry, DeliveryFormat,
        DeliveryState, DeliveryStore, OutgoingMessage, SendError, SendErrorKind, SentMessage,
    },
    task::TaskGroup,
};
use angelia_frontends::chat::{DeliveryQueue, DeliveryQueueParts, RetryPolicy};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use super::fakes::CountingClock;

/// A platform that gives the answers the test has queued, and otherwise accepts everything.
pub(crate) struct FakeChat {
    pub(crate) received: Mutex<Vec<(String, String)>>,
    pub(crate) answers: Mutex<Vec<Result<SentMessage, SendError>>>,
    pub(crate) gate: Semaphore,
}

impl FakeChat {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            received: Mutex::default(),
            answers: Mutex::default(),
            gate: Semaphore::new(1000),
        })
    }

    pub(crate) fn received(&self) -> Vec<(String, String)> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn fail_next(&self, kinds: &[SendErrorKind]) {
        let errors = kinds.iter().rev().map(|kind| Err(SendError::new(*kind, "it said no")));
        *self.answers.lock().unwrap() = errors.collect();
    }
}

impl Channel for FakeChat {
    fn platform(&self) -> &'static str {
        "chat"
    }

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities { home: true, ..ChannelCapabilities::default() }
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<SentMessage, SendError>> {
        Box::pin(async move {
            self.gate.acquire().await.unwrap().forget();
            self.received.lock().unwrap().push((chat.to_owned(), message.text.to_string()));
            let answer = self.answers.lock().unwrap().pop();
            answer.unwrap_or(Ok(SentMessage::default()))
        })
    }
}

pub(crate) struct DeliveryHarness {
    pub(crate) queue: DeliveryQueue,
    pub(crate) chat: Arc<FakeChat>,
    pub(crate) ledger: SqliteDeliveries,
    pub(crate) tasks: TaskGroup,
    folder: TempDir,
}

pub(crate) fn delivery_harness() -> DeliveryHarness {
    let folder = tempfile::tempdir().unwrap();
    delivery_harness_in(folder, FakeChat::new())
}

fn delivery_harness_in(folder: TempDir, chat: Arc<FakeChat>) -> DeliveryHarness {
    let ledger = SqliteDeliveries::open(&folder.path().join("deliveries.db")).unwrap();
    let tasks = TaskGroup::new();
    let variable = |name: &str| (name == "CHAT_HOME_CHANNEL").then(|| "home".to_owned());
    let courier = DeliveryQueue::new(DeliveryQueueParts {
        channels: ChannelRegistry::new(vec![Arc::clone(&chat) as _], variable),
        ledger: Arc::new(ledger.clone()),
        clock: Arc::new(CountingClock::default()),
        tasks: tasks.clone(),
        retry: RetryPolicy { max_attempts: 3, first_delay: Duration::from_millis(1) },
    });
    DeliveryHarness { queue: courier, chat, ledger, tasks, folder }
}

impl DeliveryHarness {
    async fn send(&self, id: &str, text: &str) -> Result<(), String> {
        let sending = self.queue.send(id, "chat:1", text).await.unwrap();
        sending.outcome().await.map_err(|error| error.to_string())
    }

    async fn state(&self, id: &str) -> DeliveryState {
        self.ledger.get(id).await.unwrap().unwrap().state
    }
}

fn texts(chat: &FakeChat) -> Vec<String> {
    chat.received().into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn what_was_not_sent_is_tried_again_and_what_may_have_arrived_is_marked() {
    let stage = delivery_harness();
    stage.chat.fail_next(&[SendErrorKind::NotSent]);
    stage.send("a", "one\x1b[1m").await.unwrap();
    stage.chat.fail_next(&[SendErrorKind::Unknown]);
    stage.send("b", "two").await.unwrap();
    assert_eq!(texts(&stage.chat), ["one", "one", "two", "(may be a repeat) two"]);
    assert_eq!(stage.state("b").await, DeliveryState::Delivered { attempts: 2 });
    // The same delivery submitted again is not sent twice.
    stage.send("b", "two").await.unwrap();
    assert_eq!(texts(&stage.chat).len(), 4);
}

#[tokio::test]
async fn attempts_are_bounded_and_a_refusal_is_final() {
    let stage = delivery_harness();
    stage.chat.fail_next(&[SendErrorKind::NotSent; 5]);
    assert_eq!(stage.send("a", "one").await.unwrap_err(), "it said no");
    assert_eq!(texts(&stage.chat).len(), 3);
    stage.chat.fail_next(&[SendErrorKind::Refused]);
    stage.send("b", "two").await.unwrap_err();
    assert_eq!(texts(&stage.chat).len(), 4);
    let failed = DeliveryState::Failed { attempts: 1, error: "it said no".into() };
    assert_eq!(stage.state("b").await, failed);
}

#[tokio::test]
async fn where_it_goes_is_known_before_it_is_taken() {
    let stage = delivery_harness();
    let refused = |channel: &'static str| {
        let courier = stage.queue.clone();
        async move { courier.send("x", channel, "t").await.unwrap_err().to_string() }
    };
    assert_eq!(refused("carrier:1").await, "there is no platform `carrier`; configured: chat");
    assert!(refused("no platform").await.contains("is not a channel"));
    assert!(refused("chat:").await.contains("is not a channel"));
    let sending = stage.queue.send("h", "Chat", "t").await.unwrap();
    sending.outcome().await.unwrap();
    let sending = stage.queue.send("c", "chat:a:b", "t").await.unwrap();
    sending.outcome().await.unwrap();
    let chats: Vec<String> = stage.chat.received().into_iter().map(|(chat, _)| chat).collect();
    assert_eq!(chats, ["home", "a:b"]);
}

#[tokio::test]
async fn a_chat_gets_its_texts_in_their_order() {
    let stage = delivery_harness();
    stage.chat.gate.forget_permits(1000);
    stage.chat.fail_next(&[SendErrorKind::NotSent]);
    let mut sending = Vec::new();
    for n in 0..20 {
        let id = format!("m-{n}");
        sending.push(stage.queue.send(&id, "chat:1", &id).await.unwrap());
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
async fn an_id_that_is_sent_again_while_its_delivery_runs_is_delivered_once() {
    let stage = delivery_harness();
    stage.chat.gate.forget_permits(1000);
    let first = stage.queue.send("a", "chat:1", "one").await.unwrap();
    while !matches!(stage.state("a").await, DeliveryState::Attempting { .. }) {
        tokio::task::yield_now().await;
    }
    let again = stage.queue.send("a", "chat:1", "one").await.unwrap();
    let elsewhere = stage.queue.send("a", "chat:2", "one").await.unwrap();
    stage.chat.gate.add_permits(1000);
    for pending in [first, again, elsewhere] {
        pending.outcome().await.unwrap();
    }
    assert_eq!(texts(&stage.chat), ["one"]);
}

#[tokio::test]
async fn no_more_than_five_hundred_texts_wait_however_many_senders_there_are() {
    let stage = delivery_harness();
    stage.chat.gate.forget_permits(1000);
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..520 {
        let queue = stage.queue.clone();
        senders.spawn(async move { queue.send(&format!("m-{n}"), "chat:1", "t").await.map(drop) });
    }
    let refused = senders.join_all().await.into_iter().filter(Result::is_err).count();
    assert_eq!(refused, 20);
    assert_eq!(stage.ledger.list_unfinished().await.unwrap().len(), 500);
    stage.chat.gate.add_permits(1000);
    while !stage.ledger.list_unfinished().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stage.send("later", "t").await.unwrap();
}

#[tokio::test]
async fn what_a_dead_process_left_is_taken_up() {
    let first = delivery_harness();
    first.chat.gate.forget_permits(1000);
    drop(first.queue.send("cut", "chat:1", "was on its way").await.unwrap());
    let waits = first.queue.send("waits", "chat:1", "was next").await.unwrap();
    while !matches!(first.state("cut").await, DeliveryState::Attempting { .. }) {
        tokio::task::yield_now().await;
    }
    assert!(first.tasks.shutdown(Duration::from_secs(20)).await);
    assert!(waits.outcome().await.is_err());
    let old = ChannelDelivery {
        id: "old".into(),
        channel: "chat:1".into(),
        text: "yesterday's news".into(),
        format: DeliveryFormat::Plain,
        reply_to: None,
        replaces: None,
        sent_parts: 0,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        state: DeliveryState::NEW,
    };
    first.ledger.add(&old).await.unwrap();

    let second = delivery_harness_in(first.folder, FakeChat::new());
    assert_eq!(second.queue.recover().await.unwrap(), 3);
    while second.ledger.list_unfinished().await.unwrap().iter().any(|one| one.state.is_unfinished())
    {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(texts(&second.chat), ["(may be a repeat) was on its way", "was next"]);
    assert_eq!(second.state("old").await.as_str(), "failed");
    drop(second.folder);
}
