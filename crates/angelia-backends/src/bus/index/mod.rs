//! The endpoints, their listeners and their queues, in memory. Nothing here waits or touches a
//! file: each call is short and runs under one lock; `bus_core` does the waiting and the I/O.
//!
//! - `endpoint`: one endpoint and its queue; `claim`: attaching a listener to an endpoint.
//! - `delivery`: taking and acknowledging messages; `dead_letters`: undeliverable messages.

mod claim;
mod dead;
mod endpoint;
mod taking;

use std::collections::{BTreeMap, HashMap};

use angelia_core::{
    model::{
        EndpointName,
        bus::{Destination, Message},
    },
    ports::bus::{BusCounts, EndpointState, Presence, Receipt, Refusal, Watch},
};
use uuid::Uuid;

pub(super) use self::{
    dead::Dead,
    endpoint::{Endpoint, Entry, Place, Standing},
    taking::{Notice, Taken},
};
use super::limits::{BusLimits, MAX_CACHED, MAX_MESSAGE, MAX_QUEUED_IN_ALL};

/// The number of an endpoint in this process. It never changes, because endpoints are not removed.
pub(super) type Slot = u32;

#[derive(Debug)]
pub(super) struct Index {
    pub(super) limits: BusLimits,
    endpoints: Vec<Endpoint>,
    names: HashMap<EndpointName, Slot>,
    dead: BTreeMap<u64, Dead>,
    /// By segment number: the messages in it that must still be kept.
    pub(super) used: HashMap<u64, Used>,
    cached: usize,
    queued: usize,
    counts: BusCounts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// A message on its way into the bus, with room reserved for it.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) targets: Targets,
    pub(super) presence: Presence,
    /// Accepted even if it repeats an earlier message.
    pub(super) fresh: bool,
}

#[derive(Debug)]
pub(super) enum Targets {
    One(Slot),
    Many(Vec<Slot>),
    Refused(Refusal),
}

impl Targets {
    pub(super) fn slots(&self) -> &[Slot] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Many(slots) => slots,
            Self::Refused(_) => &[],
        }
    }
}

impl Index {
    pub(super) fn new(limits: BusLimits) -> Self {
        Self {
            limits,
            endpoints: Vec::new(),
            names: HashMap::new(),
            dead: BTreeMap::new(),
            used: HashMap::new(),
            cached: 0,
            queued: 0,
            counts: BusCounts::default(),
        }
    }

    /// Returns the slot of an endpoint, which is added if it is new.
    pub(super) fn slot(&mut self, name: &EndpointName) -> Slot {
        if let Some(slot) = self.names.get(name) {
            return *slot;
        }
        let slot = Slot::try_from(self.endpoints.len()).unwrap_or(Slot::MAX);
        self.endpoints.push(Endpoint::new(name.clone()));
        self.names.insert(name.clone(), slot);
        slot
    }

    pub(super) fn known(&self, name: &str) -> Option<&Endpoint> {
        self.names.get(name).map(|slot| self.at(*slot))
    }

    pub(super) fn at(&self, slot: Slot) -> &Endpoint {
        &self.endpoints[slot as usize]
    }

    pub(super) fn at_mut(&mut self, slot: Slot) -> &mut Endpoint {
        &mut self.endpoints[slot as usize]
    }

    /// Finds the endpoints that a message goes to and reserves room in their queues.
    pub(super) fn reserve(&mut self, message: Message) -> Outgoing {
        let size = message.envelope.len();
        let (targets, presence) = if size > MAX_MESSAGE {
            let limit = MAX_MESSAGE;
            let refusal = Refusal::TooLarge { size, limit };
            (Targets::Refused(refusal), Presence::NeverSeen)
        } else {
            match &message.to {
                Destination::Endpoint(name) => {
                    let slot = self.slot(name);
                    self.reserve_one(slot)
                }
                Destination::Everyone => self.reserve_all(),
            }
        };
        if matches!(targets, Targets::Refused(_)) {
            self.counts.refused += 1;
        }
        Outgoing { message, targets, presence, fresh: false }
    }

    fn reserve_one(&mut self, slot: Slot) -> (Targets, Presence) {
        let is_full = self.queued >= MAX_QUEUED_IN_ALL;
        let cap = self.limits.max_queued;
        let endpoint = self.at_mut(slot);
        let queued = endpoint.queued() + endpoint.reserved;
        if is_full || queued >= cap {
            let to = endpoint.name.clone();
            let refusal = Refusal::Full { to, queued };
            return (Targets::Refused(refusal), Presence::Away);
        }
        endpoint.reserved += 1;
        let presence = match (&endpoint.live, endpoint.standing.seen) {
            (Some(_), _) => Presence::Listening,
            (None, true) => Presence::Away,
            (None, false) => Presence::NeverSeen,
        };
        (Targets::One(slot), presence)
    }

    /// Reserves room for a broadcast at every listening or durable endpoint. An endpoint whose
    /// queue is full misses the broadcast.
    fn reserve_all(&mut self) -> (Targets, Presence) {
        let cap = self.limits.max_queued;
        let mut slots = Vec::new();
        let mut presence = Presence::NeverSeen;
        for (slot, endpoint) in (0..).zip(&mut self.endpoints) {
            let is_live = endpoint.live.is_some();
            let is_there = is_live || endpoint.standing.durable;
            if is_there && endpoint.queued() + endpoint.reserved < cap {
                endpoint.reserved += 1;
                slots.push(slot);
            }
            if is_live {
                presence = Presence::Listening;
            }
        }
        (Targets::Many(slots), presence)
    }

    /// Releases the room that was reserved for a message that is not stored.
    pub(super) fn unreserve(&mut self, targets: &Targets) {
        for slot in targets.slots() {
            self.at_mut(*slot).reserved -= 1;
        }
    }

    /// Puts a stored message into the queues of its targets, which get the positions from `first`
    /// on, and returns the sender's receipt.
    pub(super) fn commit(
        &mut self,
        outgoing: Outgoing,
        first: u64,
        at: i64,
        place: Option<Place>,
        watch: Option<&Watch>,
    ) -> Receipt {
        let Outgoing { message, targets, presence, .. } = outgoing;
        let receipt = Receipt { id: message.id.clone(), presence, repeated: false };
        self.counts.accepted += 1;
        // The sender of a broadcast is not told who has taken it.
        let watch = watch.filter(|_| matches!(targets, Targets::One(_)));
        for (position, slot) in (first..).zip(targets.slots()) {
            let entry = Entry {
                position,
                at,
                size: message.envelope.len(),
                place,
                message: None,
                watch: watch.cloned(),
                again: false,
                handed: false,
            };
            self.at_mut(*slot).reserved -= 1;
            self.enter(*slot, entry, Some(message.clone()));
        }
        receipt
    }

    /// Returns the receipt of a message that was accepted before, and releases its room.
    pub(super) fn repeated(&mut self, outgoing: &Outgoing) -> Receipt {
        self.unreserve(&outgoing.targets);
        self.counts.repeated += 1;
        Receipt { id: outgoing.message.id.clone(), presence: outgoing.presence, repeated: true }
    }

    pub(super) fn refused(&mut self) {
        self.counts.refused += 1;
    }

    /// Puts an entry at the end of a queue, together with its message if the memory limit allows
    /// it.
    pub(super) fn enter(&mut self, slot: Slot, mut entry: Entry, message: Option<Message>) {
        if let Some(place) = entry.place {
            let used = self.used.entry(place.segment).or_default();
            used.messages += 1;
            used.bytes += entry.size;
        }
        if entry.place.is_none() || self.cached + entry.size <= MAX_CACHED {
            entry.message = message;
            self.cached += entry.message.as_ref().map_or(0, |_| entry.size);
        }
        self.queued += 1;
        let endpoint = self.at_mut(slot);
        endpoint.waiting.push_back(entry);
        if let Some(live) = &endpoint.live {
            live.news.notify_one();
        }
    }

    /// Updates the counters for an entry that has left its queue for good.
    fn forget(&mut self, entry: &Entry) {
        self.queued -= 1;
        if entry.message.is_some() {
            self.cached -= entry.size;
        }
        if let Some(place) = entry.place {
            self.unuse(place.segment, entry.size);
        }
    }

    fn unuse(&mut self, segment: u64, size: usize) {
        if let Some(used) = self.used.get_mut(&segment) {
            used.messages -= 1;
            used.bytes -= size;
        }
    }

    pub(super) fn listening(&self) -> Vec<(EndpointName, Uuid)> {
        let live = self.endpoints.iter().filter_map(|endpoint| {
            let live = endpoint.live.as_ref()?;
            Some((endpoint.name.clone(), live.session))
        });
        let mut live: Vec<_> = live.collect();
        live.sort();
        live
    }

    pub(super) fn states(&self) -> Vec<EndpointState> {
        let states =
            self.endpoints.iter().filter_map(|endpoint| {
                let session = endpoint.live.as_ref().map(|live| live.session);
                let queued = endpoint.queued();
                (session.is_some() || queued > 0 || endpoint.standing.durable)
                    .then(|| EndpointState { name: endpoint.name.clone(), session, queued })
            });
        let mut states: Vec<_> = states.collect();
        states.sort_by(|a, b| a.name.cmp(&b.name));
        states
    }

    pub(super) fn counts(&self) -> BusCounts {
        let live = self.endpoints.iter().filter(|one| one.live.is_some());
        BusCounts {
            listening: live.count(),
            queued: self.queued,
            dead: self.dead.len(),
            ..self.counts
        }
    }
}
