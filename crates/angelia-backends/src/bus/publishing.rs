//! A sender that is faster than its receiver is slowed down, as long as the receiver keeps taking
//! messages. One that has stopped slows nobody: its queue fills up, and then it is refused more.

use std::{sync::Arc, time::Duration};

use angelia_core::model::bus::{Destination, Message};
use tokio::sync::Notify;

use super::{
    index::{Index, Slot},
    shared::{Keeper, Shared, lock},
};

/// A receiver that has taken nothing for this long has stopped.
const STOPPED: Duration = Duration::from_millis(250);

impl<K: Keeper> Shared<K> {
    pub(super) async fn wait_for_room(&self, messages: &[Message]) {
        loop {
            let crowded = lock(&self.index).crowded(messages);
            let Some(room) = crowded else {
                return;
            };
            // Whoever stops meanwhile is seen when the time is up.
            let _or_stopped = tokio::time::timeout(STOPPED, room).await;
        }
    }
}

impl Index {
    /// Resolves when it is worth looking again; `None`: nothing to wait for.
    fn crowded(&mut self, messages: &[Message]) -> Option<impl Future<Output = ()> + use<>> {
        let mut run: Option<(Slot, usize)> = None;
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
                && let Some(room) = self.room_at(slot, count)
            {
                return Some(room.notified_owned());
            }
            run = Some((self.slot(name), 1));
            last = Some(name);
        }
        let (slot, count) = run?;
        Some(self.room_at(slot, count)?.notified_owned())
    }

    fn room_at(&mut self, slot: Slot, count: usize) -> Option<Arc<Notify>> {
        let cap = self.limits.max_queued;
        let endpoint = self.at_mut(slot);
        let queued = endpoint.queued() + endpoint.reserved;
        let is_crowded = queued > 0 && queued + count > cap;
        let goes_on = || {
            let last = endpoint.last_progress;
            endpoint.live.is_some() && last.is_some_and(|last| last.elapsed() < STOPPED)
        };
        (is_crowded && goes_on()).then(|| {
            let room = endpoint.room.get_or_insert_with(Default::default);
            Arc::clone(room)
        })
    }
}
