//! One endpoint: its listener, the messages that wait, and the messages in flight.

use std::{collections::VecDeque, sync::Arc};

use angelia_core::{
    model::{EndpointName, bus::BusMessage},
    ports::bus::{DeliveryNotifier, Presence},
};
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

/// A message that has been accepted and not yet acknowledged.
#[derive(Debug)]
pub(in crate::bus) struct QueueEntry {
    pub(in crate::bus) position: u64,
    /// Unix milliseconds.
    pub(in crate::bus) accepted_at_ms: i64,
    pub(in crate::bus) size: usize,
    pub(in crate::bus) location: Option<LogLocation>,
    /// `None`: the message is only on disk.
    pub(in crate::bus) message: Option<BusMessage>,
    pub(in crate::bus) watch: Option<DeliveryNotifier>,
    pub(in crate::bus) redelivered: bool,
    /// Written to the socket of a listener that does not acknowledge.
    pub(in crate::bus) is_written: bool,
}

/// The segment and the byte offset at which a record is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) struct LogLocation {
    pub(in crate::bus) segment: u64,
    pub(in crate::bus) offset: u64,
}

#[derive(Debug)]
pub(in crate::bus) struct AttachedListener {
    pub(in crate::bus) session: Uuid,
    /// Notified when a message waits, and when the listener has been displaced.
    pub(in crate::bus) wakeup: Arc<Notify>,
    /// The process that runs the bus is the listener; no other listener can displace it.
    pub(in crate::bus) is_host: bool,
}

/// The part of an endpoint that outlives its listener and a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::bus) struct EndpointRecord {
    pub(in crate::bus) seen: bool,
    pub(in crate::bus) durable: bool,
    pub(in crate::bus) token: Option<[u8; 32]>,
    /// The session whose agent was the last to register the name; `None`: a program of the owner.
    pub(in crate::bus) agent: Option<Arc<str>>,
}

#[derive(Debug)]
pub(in crate::bus) struct EndpointQueue {
    pub(in crate::bus) name: EndpointName,
    pub(in crate::bus) record: EndpointRecord,
    pub(in crate::bus) listener: Option<AttachedListener>,
    /// By position; messages that a lost listener gave back are at the front.
    pub(in crate::bus) waiting: VecDeque<QueueEntry>,
    /// Taken by the listener and not yet acknowledged, by position.
    pub(in crate::bus) in_flight: VecDeque<QueueEntry>,
    /// Room taken by messages that are published and not yet stored.
    pub(in crate::bus) reserved: usize,
    /// Set while a sender waits for room in this queue.
    pub(in crate::bus) room_notify: Option<Arc<Notify>>,
    pub(in crate::bus) last_progress: Option<Instant>,
}

impl EndpointQueue {
    pub(in crate::bus) fn new(name: EndpointName) -> Self {
        Self {
            name,
            record: EndpointRecord::default(),
            listener: None,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            reserved: 0,
            room_notify: None,
            last_progress: None,
        }
    }

    pub(in crate::bus) fn queued(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    pub(in crate::bus) fn presence(&self) -> Presence {
        match (&self.listener, self.record.seen) {
            (Some(_), _) => Presence::Listening,
            (None, true) => Presence::Away,
            (None, false) => Presence::NeverSeen,
        }
    }

    pub(in crate::bus) fn is_held_by(&self, session: Uuid) -> bool {
        self.listener.as_ref().is_some_and(|live| live.session == session)
    }

    /// Puts the messages in flight back to the front of the queue, because their listener has gone.
    pub(in crate::bus) fn requeue_in_flight(&mut self) {
        while let Some(mut entry) = self.in_flight.pop_back() {
            entry.redelivered = true;
            self.waiting.push_front(entry);
        }
        if self.waiting.is_empty() {
            // Frees the memory of a queue that was long once.
            self.waiting = VecDeque::new();
            self.in_flight = VecDeque::new();
        }
    }

    pub(in crate::bus) fn remove_in_flight(&mut self, position: u64) -> Option<QueueEntry> {
        if self.in_flight.front()?.position == position {
            return self.in_flight.pop_front();
        }
        let found = self.in_flight.binary_search_by_key(&position, |entry| entry.position);
        self.in_flight.remove(found.ok()?)
    }

    pub(in crate::bus) fn find(&self, position: u64) -> Option<&QueueEntry> {
        [&self.waiting, &self.in_flight].into_iter().find_map(|queue| {
            let found = queue.binary_search_by_key(&position, |entry| entry.position);
            queue.get(found.ok()?)
        })
    }

    pub(in crate::bus) fn find_mut(&mut self, position: u64) -> Option<&mut QueueEntry> {
        for queue in [&mut self.waiting, &mut self.in_flight] {
            if let Ok(found) = queue.binary_search_by_key(&position, |entry| entry.position) {
                return queue.get_mut(found);
            }
        }
        None
    }

    /// Notes that the listener has finished messages, and wakes the senders that wait for room.
    pub(in crate::bus) fn note_progress(&mut self) {
        self.last_progress = Some(Instant::now());
        if let Some(room) = self.room_notify.take() {
            room.notify_waiters();
        }
    }
}
