//! Runs a chat platform adapter, and keeps the events that it receives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_core::{
    ports::{Channel, EventInbox, InboundEvent, StoreFuture},
    task::TaskGroup,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Keeps events and the cursor after them.
#[derive(Debug, Default)]
pub struct KeptEvents {
    events: Mutex<Vec<InboundEvent>>,
    cursor: Mutex<Option<Arc<str>>>,
}

impl EventInbox for KeptEvents {
    fn accept(&self, events: Vec<InboundEvent>, cursor: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        self.events.lock().unwrap().extend(events);
        *self.cursor.lock().unwrap() = cursor;
        Box::pin(async { Ok(()) })
    }

    fn note_alive(&self) {}
}

/// An adapter that receives until this is dropped.
#[derive(Debug)]
pub struct ReceivingAdapter {
    kept: Arc<KeptEvents>,
    stop: CancellationToken,
}

impl ReceivingAdapter {
    /// Starts the adapter, and returns once it has a cursor.
    pub async fn start(adapter: Arc<dyn Channel>, cursor: Option<&str>) -> Self {
        let kept = Arc::new(KeptEvents::default());
        let stop = CancellationToken::new();
        let (own, token) = (Arc::clone(&kept), stop.clone());
        let cursor = cursor.map(Arc::from);
        TaskGroup::new().spawn(async move {
            let receiving = adapter.receive(cursor, &*own);
            let _error = token.run_until_cancelled(receiving).await;
        });
        let receiving = Self { kept, stop };
        receiving.until("it has a cursor", || receiving.cursor().is_some()).await;
        receiving
    }

    pub fn cursor(&self) -> Option<Arc<str>> {
        self.kept.cursor.lock().unwrap().clone()
    }

    pub async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let waiting = async {
            while !condition() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = timeout(Duration::from_secs(20), waiting).await;
        assert!(waited.is_ok(), "{what}: {:?}", self.kept.events.lock().unwrap());
    }

    /// Waits until there are this many events, and returns all of them.
    pub async fn events(&self, count: usize) -> Vec<InboundEvent> {
        let has_them = || self.kept.events.lock().unwrap().len() >= count;
        self.until(&format!("{count} events"), has_them).await;
        self.kept.events.lock().unwrap().clone()
    }
}

impl Drop for ReceivingAdapter {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
