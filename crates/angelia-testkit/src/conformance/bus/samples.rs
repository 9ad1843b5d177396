//! Sample messages, names, a clock and shared steps for the checks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    model::{
        EndpointName,
        bus::{Destination, Message},
    },
    ports::{
        Bus, Clock, Inbox,
        bus::{Claim, Delivery, InboxError, Position, Receipt},
    },
};
use bytes::Bytes;
use jiff::Timestamp;
use uuid::Uuid;

/// Generous, because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A clock that only moves when the test advances it.
#[derive(Debug)]
pub struct HandClock(AtomicI64);

impl Default for HandClock {
    fn default() -> Self {
        Self(AtomicI64::new(1_800_000_000_000))
    }
}

impl HandClock {
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}

pub fn name(name: &str) -> EndpointName {
    EndpointName::new(name).unwrap()
}

pub fn message(from: &str, to: &str, id: &str) -> Message {
    Message {
        id: id.into(),
        from: Some(from.into()),
        verified: true,
        to: Destination::Endpoint(name(to)),
        envelope: Bytes::from(format!(
            r#"{{"type":"message","to":"{to}","id":"{id}","body":{{"text":"ä"}}}}"#
        )),
    }
}

pub fn broadcast(id: &str) -> Message {
    Message { to: Destination::Everyone, ..message("a", "b", id) }
}

/// Publishes a message and waits for its receipt.
pub async fn accepted(bus: &Arc<dyn Bus>, message: Message) -> Receipt {
    let published = bus.publish(vec![message], None).await;
    published.await.pop().unwrap().unwrap()
}

pub async fn attach(bus: &Arc<dyn Bus>, endpoint: &str) -> Box<dyn Inbox> {
    bus.attach(Claim::new(name(endpoint))).await.unwrap()
}

pub async fn next(inbox: &mut Box<dyn Inbox>, limit: usize) -> Vec<Delivery> {
    try_next(inbox, limit).await.unwrap()
}

pub async fn try_next(
    inbox: &mut Box<dyn Inbox>,
    limit: usize,
) -> Result<Vec<Delivery>, InboxError> {
    let next = tokio::time::timeout(PATIENCE, inbox.next(limit));
    next.await.unwrap_or_else(|_| panic!("nothing came"))
}

/// Receives exactly `count` messages, however they are batched.
pub async fn take(inbox: &mut Box<dyn Inbox>, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(next(inbox, count - taken.len()).await);
    }
    taken
}

/// Asserts that no message is waiting. A short wait is enough, because receivers see a message
/// before its sender gets the receipt.
pub async fn assert_empty(inbox: &mut Box<dyn Inbox>) {
    let next = tokio::time::timeout(Duration::from_millis(50), inbox.next(1));
    if let Ok(taken) = next.await {
        panic!("it should be empty: {taken:?}");
    }
}

pub fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|one| &*one.message.id).collect()
}

pub fn positions(deliveries: &[Delivery]) -> Vec<Position> {
    deliveries.iter().map(|one| one.position).collect()
}
