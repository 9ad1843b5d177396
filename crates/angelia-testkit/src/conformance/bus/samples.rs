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
        bus::{BusMessage, Destination},
    },
    ports::{
        Bus, BusInbox, Clock,
        bus::{AttachRequest, BusDelivery, BusPosition, InboxError, Receipt},
    },
};
use bytes::Bytes;
use jiff::Timestamp;
use uuid::Uuid;

/// Generous, because the machine may be busy.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_mins(1);

/// A clock that only moves when the test advances it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl Default for ManualClock {
    fn default() -> Self {
        Self(AtomicI64::new(1_800_000_000_000))
    }
}

impl ManualClock {
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
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

pub fn message(from: &str, to: &str, id: &str) -> BusMessage {
    BusMessage {
        id: id.into(),
        from: Some(from.into()),
        verified: true,
        to: Destination::Endpoint(name(to)),
        envelope: Bytes::from(format!(
            r#"{{"type":"message","to":"{to}","id":"{id}","body":{{"text":"ä"}}}}"#
        )),
    }
}

pub fn broadcast(id: &str) -> BusMessage {
    BusMessage { to: Destination::Everyone, ..message("a", "b", id) }
}

/// Publishes a message and waits for its receipt.
pub async fn publish_accepted(bus: &Arc<dyn Bus>, message: BusMessage) -> Receipt {
    let published = bus.publish(vec![message], None).await;
    published.await.pop().unwrap().unwrap()
}

pub async fn attach(bus: &Arc<dyn Bus>, endpoint: &str) -> Box<dyn BusInbox> {
    bus.attach(AttachRequest::new(name(endpoint))).await.unwrap()
}

pub async fn next_deliveries(inbox: &mut Box<dyn BusInbox>, limit: usize) -> Vec<BusDelivery> {
    try_next_deliveries(inbox, limit).await.unwrap()
}

pub async fn try_next_deliveries(
    inbox: &mut Box<dyn BusInbox>,
    limit: usize,
) -> Result<Vec<BusDelivery>, InboxError> {
    let next = tokio::time::timeout(DELIVERY_TIMEOUT, inbox.next(limit));
    next.await.unwrap_or_else(|_| panic!("nothing came"))
}

/// Receives exactly `count` messages, however they are batched.
pub async fn take_deliveries(inbox: &mut Box<dyn BusInbox>, count: usize) -> Vec<BusDelivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(next_deliveries(inbox, count - taken.len()).await);
    }
    taken
}

/// Asserts that no message is waiting. A short wait is enough, because receivers see a message
/// before its sender gets the receipt.
pub async fn assert_empty(inbox: &mut Box<dyn BusInbox>) {
    let next = tokio::time::timeout(Duration::from_millis(50), inbox.next(1));
    if let Ok(taken) = next.await {
        panic!("it should be empty: {taken:?}");
    }
}

pub fn ids(deliveries: &[BusDelivery]) -> Vec<&str> {
    deliveries.iter().map(|one| &*one.message.id).collect()
}

pub fn positions(deliveries: &[BusDelivery]) -> Vec<BusPosition> {
    deliveries.iter().map(|one| one.position).collect()
}
