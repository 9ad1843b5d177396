//! The endpoints, their listeners and their queues, in memory. Nothing here waits or touches a
//! file: each call is short and runs under one lock; `bus_core` does the waiting and the I/O.
//!
//! - `endpoint`: one endpoint and its queue; `claim`: attaching a listener to an endpoint.
//! - `delivery`: taking and acknowledging messages; `dead_letters`: undeliverable messages.

mod claim;
mod dead_letters;
mod delivery;
mod endpoint;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use angelia_core::{
    model::{
        EndpointName,
        bus::{BusMessage, Destination},
    },
    ports::bus::{BusCounts, DeliveryNotifier, EndpointState, Presence, PublishError, Receipt},
};
use uuid::Uuid;

pub(super) use self::{
    dead_letters::DeadEntry,
    delivery::{DeliveryNotice, PeekedEntry, TakeResult},
    endpoint::{EndpointQueue, EndpointRecord, LogLocation, QueueEntry},
};
use super::limits::{BusLimits, MAX_CACHED_BYTES, MAX_MESSAGE_BYTES, MAX_TOTAL_QUEUED};

/// The number of an endpoint in this process. It never changes, because endpoints are not removed.
pub(super) type EndpointSlot = u32;

#[derive(Debug)]
pub(super) struct BusIndex {
    pub(super) limits: BusLimits,
    endpoints: Vec<EndpointQueue>,
    slots_by_name: HashMap<EndpointName, EndpointSlot>,
    dead_letters: BTreeMap<u64, DeadEntry>,
    /// By segment number: the messages in it that must still be kept.
    pub(super) segment_usage: HashMap<u64, SegmentUsage>,
    cached_bytes: usize,
    queued: usize,
    /// Room taken in all queues by messages that are published and not yet stored.
    reserved: usize,
    counts: BusCounts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentUsage {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// A message on its way into the bus, with room reserved for it.
#[derive(Debug)]
pub(super) struct ReservedMessage {
    pub(super) message: BusMessage,
    pub(super) targets: Targets,
    pub(super) presence: Presence,
    /// Tells a repeat from another message with the same id.
    pub(super) body_hash: u64,
    /// Accepted even if it repeats an earlier message.
    pub(super) skip_dedupe: bool,
}

#[derive(Debug)]
pub(super) enum Targets {
    One(EndpointSlot),
    Many(Vec<EndpointSlot>),
    /// No queue: the message becomes a dead letter at once.
    DeadLetter {
        to: EndpointName,
        reason: String,
    },
    Refused(PublishError),
}

impl Targets {
    pub(super) fn slots(&self) -> &[EndpointSlot] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Many(slots) => slots,
            Self::DeadLetter { .. } | Self::Refused(_) => &[],
        }
    }

    /// Returns the number of positions that the message takes in the log.
    pub(super) fn positions(&self) -> u64 {
        match self {
            Self::DeadLetter { .. } => 1,
            other => other.slots().len() as u64,
        }
    }
}

impl BusIndex {
    pub(super) fn new(limits: BusLimits) -> Self {
        Self {
            limits,
            endpoints: Vec::new(),
            slots_by_name: HashMap::new(),
            dead_letters: BTreeMap::new(),
            segment_usage: HashMap::new(),
            cached_bytes: 0,
            queued: 0,
            reserved: 0,
            counts: BusCounts::default(),
        }
    }

    /// Returns the slot of an endpoint, which is added if it is new.
    pub(super) fn slot_or_insert(&mut self, name: &EndpointName) -> EndpointSlot {
        if let Some(slot) = self.slots_by_name.get(name) {
            return *slot;
        }
        let slot = EndpointSlot::try_from(self.endpoints.len()).unwrap_or(EndpointSlot::MAX);
        self.endpoints.push(EndpointQueue::new(name.clone()));
        self.slots_by_name.insert(name.clone(), slot);
        slot
    }

    pub(super) fn find_endpoint(&self, name: &str) -> Option<&EndpointQueue> {
        self.slots_by_name.get(name).map(|slot| self.endpoint(*slot))
    }

    pub(super) fn endpoint(&self, slot: EndpointSlot) -> &EndpointQueue {
        &self.endpoints[slot as usize]
    }

    pub(super) fn endpoint_mut(&mut self, slot: EndpointSlot) -> &mut EndpointQueue {
        &mut self.endpoints[slot as usize]
    }

    /// Finds the endpoints that a message goes to and reserves room in their queues.
    pub(super) fn reserve(&mut self, message: BusMessage, body_hash: u64) -> ReservedMessage {
        let (targets, presence) = match (too_large(&message), &message.to) {
            (Some(refusal), _) => (Targets::Refused(refusal), Presence::NeverSeen),
            (None, Destination::Endpoint(name)) => {
                let slot = self.slot_or_insert(name);
                self.reserve_one(slot)
            }
            (None, Destination::Everyone) => self.reserve_all(),
        };
        ReservedMessage { message, targets, presence, body_hash, skip_dedupe: false }
    }

    fn reserve_one(&mut self, slot: EndpointSlot) -> (Targets, Presence) {
        if self.total_room() == 0 {
            let refusal = PublishError::BusFull { queued: self.queued };
            return (Targets::Refused(refusal), Presence::Away);
        }
        let cap = self.limits.max_queued;
        let endpoint = self.endpoint_mut(slot);
        let queued = endpoint.queued() + endpoint.reserved;
        if queued >= cap {
            let to = endpoint.name.clone();
            let refusal = PublishError::Full { to, queued };
            return (Targets::Refused(refusal), Presence::Away);
        }
        endpoint.reserved += 1;
        let presence = endpoint.presence();
        self.reserved += 1;
        (Targets::One(slot), presence)
    }

    /// Reserves room for a broadcast at every listening or durable endpoint. An endpoint whose
    /// queue is full misses the broadcast. If the bus has no room for all of the others, the
    /// broadcast is refused: otherwise chance would decide which endpoints get it.
    fn reserve_all(&mut self) -> (Targets, Presence) {
        let room = self.total_room();
        let cap = self.limits.max_queued;
        let mut slots = Vec::new();
        let mut presence = Presence::NeverSeen;
        for (slot, endpoint) in (0..).zip(&mut self.endpoints) {
            let is_live = endpoint.listener.is_some();
            let is_there = is_live || endpoint.record.durable;
            if is_there && endpoint.queued() + endpoint.reserved < cap {
                endpoint.reserved += 1;
                slots.push(slot);
            }
            if is_live {
                presence = Presence::Listening;
            }
        }
        let targets = Targets::Many(slots);
        self.reserved += targets.slots().len();
        if targets.slots().len() > room {
            self.unreserve(&targets);
            let refusal = PublishError::BusFull { queued: self.queued };
            return (Targets::Refused(refusal), presence);
        }
        (targets, presence)
    }

    /// Returns the number of messages that still fit into all queues together.
    fn total_room(&self) -> usize {
        MAX_TOTAL_QUEUED.saturating_sub(self.queued + self.reserved)
    }

    /// Releases the room that was reserved for a message that is not stored.
    pub(super) fn unreserve(&mut self, targets: &Targets) {
        for slot in targets.slots() {
            self.endpoint_mut(*slot).reserved -= 1;
            self.reserved -= 1;
        }
    }

    /// Puts a stored message into the queues of its targets, which get the positions from `first`
    /// on, and returns the sender's receipt.
    pub(super) fn commit(
        &mut self,
        outgoing: ReservedMessage,
        first: u64,
        at: i64,
        place: Option<LogLocation>,
        watch: Option<&DeliveryNotifier>,
    ) -> Receipt {
        let ReservedMessage { message, targets, presence, .. } = outgoing;
        let receipt = Receipt { id: message.id.clone(), presence, repeated: false };
        self.counts.accepted += 1;
        if let Targets::DeadLetter { to, reason } = targets {
            let size = message.envelope.len();
            let message = place.is_none().then_some(message);
            let dead = DeadEntry { to, reason, died_at_ms: at, size, location: place, message };
            self.insert_dead_letter(first, dead);
            return receipt;
        }
        // The sender of a broadcast gets no notice of the receivers that took it.
        let watch = watch.filter(|_| matches!(targets, Targets::One(_)));
        for (position, slot) in (first..).zip(targets.slots()) {
            let entry = QueueEntry {
                position,
                accepted_at_ms: at,
                size: message.envelope.len(),
                location: place,
                message: None,
                watch: watch.cloned(),
                redelivered: false,
                is_written: false,
            };
            self.endpoint_mut(*slot).reserved -= 1;
            self.reserved -= 1;
            self.enqueue(*slot, entry, Some(message.clone()));
        }
        receipt
    }

    /// Returns the receipt of a message that was accepted before, and releases its room.
    pub(super) fn accept_repeat(&mut self, outgoing: &ReservedMessage) -> Receipt {
        self.unreserve(&outgoing.targets);
        self.counts.repeated += 1;
        Receipt { id: outgoing.message.id.clone(), presence: outgoing.presence, repeated: true }
    }

    pub(super) fn count_refusal(&mut self) {
        self.counts.refused += 1;
    }

    /// Puts an entry at the end of a queue, together with its message if the memory limit allows
    /// it.
    pub(super) fn enqueue(
        &mut self,
        slot: EndpointSlot,
        mut entry: QueueEntry,
        message: Option<BusMessage>,
    ) {
        if let Some(place) = entry.location {
            let used = self.segment_usage.entry(place.segment).or_default();
            used.messages += 1;
            used.bytes += entry.size;
        }
        if entry.location.is_none() || self.cached_bytes + entry.size <= MAX_CACHED_BYTES {
            entry.message = message;
            self.cached_bytes += entry.message.as_ref().map_or(0, |_| entry.size);
        }
        self.queued += 1;
        let endpoint = self.endpoint_mut(slot);
        endpoint.waiting.push_back(entry);
        if let Some(live) = &endpoint.listener {
            live.wakeup.notify_one();
        }
    }

    /// Updates the counters for an entry that has left its queue for good.
    fn release_entry(&mut self, entry: &QueueEntry) {
        self.queued -= 1;
        if entry.message.is_some() {
            self.cached_bytes -= entry.size;
        }
        if let Some(place) = entry.location {
            self.release_segment_bytes(place.segment, entry.size);
        }
    }

    fn release_segment_bytes(&mut self, segment: u64, size: usize) {
        if let Some(used) = self.segment_usage.get_mut(&segment) {
            used.messages -= 1;
            used.bytes -= size;
        }
    }

    pub(super) fn presence(&self, name: &EndpointName) -> Presence {
        let endpoint = self.find_endpoint(name.as_str());
        endpoint.map_or(Presence::NeverSeen, EndpointQueue::presence)
    }

    pub(super) fn listeners(&self) -> Vec<(EndpointName, Uuid)> {
        let live = self.endpoints.iter().filter_map(|endpoint| {
            let live = endpoint.listener.as_ref()?;
            Some((endpoint.name.clone(), live.session))
        });
        let mut live: Vec<_> = live.collect();
        live.sort();
        live
    }

    pub(super) fn endpoint_states(&self) -> Vec<EndpointState> {
        let states =
            self.endpoints.iter().filter_map(|endpoint| {
                let session = endpoint.listener.as_ref().map(|live| live.session);
                let queued = endpoint.queued();
                (session.is_some() || queued > 0 || endpoint.record.durable)
                    .then(|| EndpointState { name: endpoint.name.clone(), session, queued })
            });
        let mut states: Vec<_> = states.collect();
        states.sort_by(|a, b| a.name.cmp(&b.name));
        states
    }

    pub(super) fn counts(&self) -> BusCounts {
        let live = self.endpoints.iter().filter(|one| one.listener.is_some());
        BusCounts {
            listening: live.count(),
            queued: self.queued,
            dead: self.dead_letters.len(),
            ..self.counts
        }
    }
}

/// Returns the refusal of a message that is larger than the bus takes.
pub(super) fn too_large(message: &BusMessage) -> Option<PublishError> {
    let (size, limit) = (message.envelope.len(), MAX_MESSAGE_BYTES);
    (size > limit).then_some(PublishError::TooLarge { size, limit })
}
