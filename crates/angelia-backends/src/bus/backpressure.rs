//! Backpressure: a sender that is faster than its receiver waits for room in the receiver's queue,
//! as long as the receiver keeps acknowledging messages. A receiver that has stopped slows down no
//! sender: its queue fills up, and further messages to it are refused.

use std::{sync::Arc, time::Duration};

use angelia_core::model::bus::{BusMessage, Destination};
use tokio::sync::Notify;

use super::{
    bus_core::BusCore,
    index::{BusIndex, EndpointSlot},
};

/// A receiver without progress for this long counts as stopped.
const STALL_TIMEOUT: Duration = Duration::from_millis(250);

impl BusCore {
    /// Waits until no receiver of `messages` has a full queue that it is still emptying.
    pub(super) async fn wait_for_room(&self, messages: &[BusMessage]) {
        loop {
            let crowded = self.index.lock().room_notification(messages);
            let Some(room) = crowded else {
                return;
            };
            // A receiver that stops meanwhile sends no notification: the timeout makes the
            // loop check again.
            let _or_stopped = tokio::time::timeout(STALL_TIMEOUT, room).await;
        }
    }
}

impl BusIndex {
    /// Returns a future that resolves when a full queue has made progress, or `None` if there is
    /// nothing to wait for. Looks up each run of messages to one receiver only once.
    fn room_notification(
        &mut self,
        messages: &[BusMessage],
    ) -> Option<impl Future<Output = ()> + use<>> {
        let mut run: Option<(EndpointSlot, usize)> = None;
        let mut last = None;
        for message in messages {
            let Destination::Endpoint(name) = &message.to else {
                continue;
            };
            if last == Some(name)
                && let Some((_, count)) = &mut run
            {
                *count += 1;
                continue;
            }
            if let Some((slot, count)) = run
                && let Some(room) = self.queue_room(slot, count)
            {
                return Some(room.notified_owned());
            }
            run = Some((self.slot_or_insert(name), 1));
            last = Some(name);
        }
        let (slot, count) = run?;
        Some(self.queue_room(slot, count)?.notified_owned())
    }

    /// Returns the notification to wait for, if `count` more messages do not fit into the queue
    /// and its listener is still making progress.
    fn queue_room(&mut self, slot: EndpointSlot, count: usize) -> Option<Arc<Notify>> {
        let cap = self.limits.max_queued;
        let endpoint = self.endpoint_mut(slot);
        let queued = endpoint.queued() + endpoint.reserved;
        // An empty queue never waits: a batch larger than the limit would wait forever.
        let is_crowded = queued > 0 && queued + count > cap;
        let goes_on = || {
            let last = endpoint.last_progress;
            endpoint.listener.is_some() && last.is_some_and(|last| last.elapsed() < STALL_TIMEOUT)
        };
        (is_crowded && goes_on()).then(|| {
            let room = endpoint.room_notify.get_or_insert_with(Default::default);
            Arc::clone(room)
        })
    }
}
