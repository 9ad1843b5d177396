//! One endpoint: its listener, the messages that wait, and the messages in flight.

use std::{collections::VecDeque, sync::Arc};

use angelia_core::{
    model::{EndpointName, bus::Message},
    ports::bus::Watch,
};
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

/// A message that has been accepted and not yet acknowledged.
#[derive(Debug)]
pub(in crate::bus) struct Entry {
    pub(in crate::bus) position: u64,
    /// Unix milliseconds.
    pub(in crate::bus) at: i64,
    pub(in crate::bus) size: usize,
    pub(in crate::bus) place: Option<Place>,
    /// `None`: the message is only on disk.
    pub(in crate::bus) message: Option<Message>,
    pub(in crate::bus) watch: Option<Watch>,
    pub(in crate::bus) again: bool,
    /// Written to the socket of a listener that does not acknowledge.
    pub(in crate::bus) handed: bool,
}

/// The segment and the byte offset at which a record is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) struct Place {
    pub(in crate::bus) segment: u64,
    pub(in crate::bus) offset: u64,
}

#[derive(Debug)]
pub(in crate::bus) struct Live {
    pub(in crate::bus) session: Uuid,
    /// Notified when a message waits, and when the listener has been displaced.
    pub(in crate::bus) news: Arc<Notify>,
}

/// The part of an endpoint that outlives its listener and a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::bus) struct Standing {
    pub(in crate::bus) seen: bool,
    pub(in crate::bus) durable: bool,
    pub(in crate::bus) token: Option<[u8; 32]>,
}

#[derive(Debug)]
pub(in crate::bus) struct Endpoint {
    pub(in crate::bus) name: EndpointName,
    pub(in crate::bus) standing: Standing,
    pub(in crate::bus) live: Option<Live>,
    /// By position; messages that a lost listener gave back are at the front.
    pub(in crate::bus) waiting: VecDeque<Entry>,
    /// Taken by the listener and not yet acknowledged, by position.
    pub(in crate::bus) taken: VecDeque<Entry>,
    /// Room taken by messages that are published and not yet stored.
    pub(in crate::bus) reserved: usize,
    /// Set while a sender waits for room in this queue.
    pub(in crate::bus) room: Option<Arc<Notify>>,
    pub(in crate::bus) last_progress: Option<Instant>,
}

impl Endpoint {
    pub(in crate::bus) fn new(name: EndpointName) -> Self {
        Self {
            name,
            standing: Standing::default(),
            live: None,
            waiting: VecDeque::new(),
            taken: VecDeque::new(),
            reserved: 0,
            room: None,
            last_progress: None,
        }
    }

    pub(in crate::bus) fn queued(&self) -> usize {
        self.waiting.len() + self.taken.len()
    }

    pub(in crate::bus) fn is_session(&self, session: Uuid) -> bool {
        self.live.as_ref().is_some_and(|live| live.session == session)
    }

    /// Puts the messages in flight back to the front of the queue, because their listener has gone.
    pub(in crate::bus) fn give_back(&mut self) {
        while let Some(mut entry) = self.taken.pop_back() {
            entry.again = true;
            self.waiting.push_front(entry);
        }
        if self.waiting.is_empty() {
            // Frees the memory of a queue that was long once.
            self.waiting = VecDeque::new();
            self.taken = VecDeque::new();
        }
    }

    pub(in crate::bus) fn remove_taken(&mut self, position: u64) -> Option<Entry> {
        if self.taken.front()?.position == position {
            return self.taken.pop_front();
        }
        let found = self.taken.binary_search_by_key(&position, |entry| entry.position);
        self.taken.remove(found.ok()?)
    }

    pub(in crate::bus) fn find(&self, position: u64) -> Option<&Entry> {
        [&self.waiting, &self.taken].into_iter().find_map(|queue| {
            let found = queue.binary_search_by_key(&position, |entry| entry.position);
            queue.get(found.ok()?)
        })
    }

    pub(in crate::bus) fn find_mut(&mut self, position: u64) -> Option<&mut Entry> {
        for queue in [&mut self.waiting, &mut self.taken] {
            if let Ok(found) = queue.binary_search_by_key(&position, |entry| entry.position) {
                return queue.get_mut(found);
            }
        }
        None
    }

    /// Notes that the listener has finished messages, and wakes the senders that wait for room.
    pub(in crate::bus) fn made_progress(&mut self) {
        self.last_progress = Some(Instant::now());
        if let Some(room) = self.room.take() {
            room.notify_waiters();
        }
    }
}
